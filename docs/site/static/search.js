// What the search quotes of a page starts below its header and its printed table of contents.
if (typeof Search !== "undefined") {
  const textOf = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".bd-header-article, .onlyprint, .launch").forEach((e) => e.remove());
    return textOf(page.documentElement.outerHTML, anchor);
  };

  // The index has Chinese words: a query's are the longest ones that the index has.
  const common = new Set(["为什么", "什么", "怎么", "怎么办", "怎样", "如何", "是否", "可以", "哪些"]);
  const isWord = (text) => [Search._index.terms, Search._index.titleterms].some((t) => t[text]);
  const chineseWords = (run) => {
    const found = [];
    for (let start = 0; start < run.length; ) {
      let end = Math.min(run.length, start + 8);
      while (end > start + 1 && !isWord(run.slice(start, end))) end--;
      if (end > start + 1) found.push(run.slice(start, end));
      start = end;
    }
    const telling = found.filter((word) => !common.has(word));
    return telling.length ? telling : found;
  };
  const split = splitQuery;
  splitQuery = (query) =>
    split(query.replace(/\p{Script=Han}+/gu, " $& ")).flatMap((term) =>
      Search._index && /\p{Script=Han}/u.test(term) ? chineseWords(term) : [term],
    );
}
