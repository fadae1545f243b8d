// Formulas as SVG, by the MathJax of sphinx-mathjax-offline:
//
//   node formulas.cjs FOLDER < [[[tex, display], …] of each page]    prints [{svgs, glyphs}, …]
const { readFileSync } = require("node:fs");

const mathjax = process.argv[2];
const options = {
  loader: { load: ["input/tex-full", "output/svg"], paths: { mathjax } },
  svg: { fontCache: "global" }, // each glyph once a page
  startup: { typeset: false },
};
require(`${mathjax}/node-main.js`).init(options).then(({ tex2svg, startup }) => {
  const { adaptor, document } = startup;
  const cache = document.outputJax.fontCache;
  const pages = JSON.parse(readFileSync(0, "utf8")).map((formulas) => {
    cache.clearCache();
    const svgs = formulas.map(([tex, display]) => {
      const svg = adaptor.outerHTML(tex2svg(tex, { display })).replaceAll(/ data-c="\w*"/g, "");
      if (svg.includes("merror")) throw new Error(`MathJax does not understand ${tex}`);
      return svg;
    });
    return { svgs, glyphs: adaptor.outerHTML(cache.getCache()) };
  });
  process.stdout.write(JSON.stringify(pages));
});
