if (typeof Search !== "undefined") {
  // What the search quotes of a page starts below its header and its printed table of contents.
  const textOf = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".bd-header-article, .onlyprint, .launch").forEach((e) => e.remove());
    return textOf(page.documentElement.outerHTML, anchor);
  };

  // Chinese is searched by its pairs of characters, as conf.py has written them into the index.
  // From a Chinese page, other names of a term and its English are searched as its Chinese.
  const HAN = /[\u3400-\u9fff]/;
  const ASKING = /为什么|是什么|什么是|什么|怎么办|如何/g; // of any question
  const typed = new URLSearchParams(location.search);
  const chinese = typed.get("lang") === "zh" || HAN.test(typed.get("q"));
  const longest = Object.keys(OTHER_NAMES).sort((a, b) => b.length - a.length);
  const others = longest.map((name) => (HAN.test(name) ? name : `\\b${name}\\b`)).join("|");
  const named = (text) => text.replace(RegExp(others, "gi"), (name) => OTHER_NAMES[name.toLowerCase()]);
  const split = splitQuery;
  splitQuery = (query) => {
    const asked = (chinese ? named(query) : query).replace(ASKING, " ");
    const pairs = Array.from(asked.matchAll(/(?=([\u3400-\u9fff]{2}))/g), (found) => found[1]);
    const words = split(asked.replace(/[\u3400-\u9fff]+/g, " "));
    return pairs.length + words.length ? [...pairs, ...words] : split(query);
  };
  if (chinese) {
    document.documentElement.lang = "zh-CN"; // of the page of results
    Documentation.addTranslations({
      locale: "zh_CN",
      plural_expr: "0",
      messages: {
        "Preparing search...": "正在准备搜索……",
        Searching: "正在搜索",
        "Search Results": "搜索结果",
        "Search finished, found one page matching the search query.": ["找到 ${resultCount} 个页面。"],
        "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
          "没有找到。换个说法试试，比如更短的词。",
      },
    });
  }

  // What a page shows in colour are the words as they were typed.
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const parsed = parse(query);
    const typed = query.toLowerCase().match(/[\u3400-\u9fff]+|[^\W_]{2,}/g) ?? [];
    localStorage.setItem("sphinx_highlight_terms", typed.join(" "));
    return parsed.with(3, new Set(typed));
  };

  // A page scores by the words that it has: a rare one more, one in a heading or the title also.
  // Its language counts as well, and homework a little less.  Pages with less than a third of the best score are not shown.
  Search.performTermsSearch = (words) => {
    const { terms, titleterms, docnames, titles, filenames } = Search._index;
    const pagesWith = (index, word) => {
      const known = Object.hasOwn(terms, word) || Object.hasOwn(titleterms, word);
      const inside = word.length !== 2 && !known;
      const keys = inside ? Object.keys(index).filter((term) => term.includes(word)) : [word];
      return keys.flatMap((key) => (Object.hasOwn(index, key) ? index[key] : []));
    };
    const scores = new Map();
    for (const word of words) {
      const headings = new Set(pagesWith(titleterms, word));
      const found = new Set([...headings, ...pagesWith(terms, word)]);
      for (const page of found) {
        const language = /^glossary|\bzh\//.test(docnames[page]) === chinese ? 3 : 1;
        const place = (headings.has(page) ? 2 : 1) + (titles[page].includes(word) ? 1 : 0);
        const rare = Math.log(docnames.length / found.size);
        const kind = docnames[page].includes("homework/") ? 0.9 : 1;
        scores.set(page, (scores.get(page) ?? 0) + language * kind * place * rare);
      }
    }
    const best = Math.max(...scores.values());
    return [...scores]
      .filter(([, score]) => score >= best / 3)
      .map(([page, score]) => [
        docnames[page],
        titles[page],
        "",
        null,
        (Scorer.title * score) / best,
        filenames[page],
        SearchResultKind.text,
      ]);
  };
}

if (document.documentElement.lang.startsWith("zh"))
  Documentation.addTranslations({ locale: "zh_CN", plural_expr: "0", messages: { "Hide Search Matches": "取消突出显示" } });

// What the theme leaves without a name for a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  const chinese = document.documentElement.lang.startsWith("zh");
  if (navigator.language.startsWith("zh")) document.querySelector('.launch a[lang="zh"]')?.classList.add("first");
  if (chinese) {
    for (const form of document.querySelectorAll("form.bd-search"))
      form.insertAdjacentHTML("beforeend", '<input type="hidden" name="lang" value="zh">');
    for (const name of document.querySelectorAll(".search-button__default-text, .bd-search-container h1"))
      name.textContent = "搜索";
  }
  const bar = document.querySelector(".bd-sidebar-primary");
  bar?.setAttribute("role", "region");
  bar?.setAttribute("aria-label", chinese ? "目录" : "Contents of the site");
  for (const summary of document.querySelectorAll(".bd-sidebar-primary summary"))
    summary.setAttribute("aria-label", chinese ? "展开" : "Show the pages below");
});
