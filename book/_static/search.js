// The search shows an excerpt of each page that it finds. Sphinx would take it from everything on the page, including the
// buttons at the top and code; this takes it from the text and the outputs that a reader sees. For a term of the glossary, which
// Sphinx shows without an excerpt, it is the definition. (Sphinx's script is loaded after this one, and begins to search
// when the page is complete, after this function.)
document.addEventListener("DOMContentLoaded", () => {
  const HIDDEN = "h1, .headerlink, script, style, noscript, svg, details.hide, .cell_input, .widget";

  /** The length of an excerpt, and how much of it is before the word that was searched for, in characters. */
  const LENGTH = 240, BEFORE = 100;

  /** Return the text of a page, or of the section or the term of the glossary that the anchor leads to. */
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article") ?? page.body;
    article.querySelectorAll(HIDDEN).forEach((element) => element.remove());
    const target = anchor && page.getElementById(decodeURIComponent(anchor.slice(1)));
    const text = (part) => part.textContent.replace(/\s+/g, " ").trim();
    if (!target) return text(article);
    if (target.tagName !== "DT") return text(target.closest("section") ?? target);
    let definition = target;
    while (definition && definition.tagName !== "DD") definition = definition.nextElementSibling;
    return definition ? `${text(target)}: ${text(definition)}` : text(target);
  };

  /** Return a paragraph with an excerpt of whole words around the first of the keywords, or from the beginning. */
  Search.makeSearchSummary = (html, keywords, anchor) => {
    const text = Search.htmlToText(html, anchor);
    if (!text) return null;
    const found = [...keywords].map((word) => text.toLowerCase().indexOf(word.toLowerCase())).filter((place) => place >= 0);
    const from = found.length ? Math.min(...found) - BEFORE : 0;
    const start = from > 0 ? text.indexOf(" ", from) + 1 : 0;
    const end = start + LENGTH < text.length ? text.lastIndexOf(" ", start + LENGTH) : text.length;
    const summary = document.createElement("p");
    summary.className = "context";
    summary.textContent = `${start > 0 ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`;
    return summary;
  };
});
