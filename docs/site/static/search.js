// What the search quotes of a page starts below its header and its printed table of contents.
if (typeof Search !== "undefined") {
  const textOf = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".bd-header-article, .onlyprint, .launch").forEach((e) => e.remove());
    return textOf(page.documentElement.outerHTML, anchor);
  };
}
