// Make elements: h("button", { type: "button", onclick }, "Press") is a button that says Press.

const SVG = ["svg", "g", "line", "circle", "text", "title"];

/** An element with attributes, listeners (names that start with "on"), and children: elements or text. */
export function h(tag, attributes = {}, ...children) {
  const el = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, "");
    else if (value !== false && value !== undefined) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}

/**
 * For a widget's outermost element: JupyterLab takes a key that is pressed on a slider or a button for one of its commands,
 * and "dd" deletes a cell, unless that very element says that the key is its own. Text fields need not say it.
 */
export const keepKeys = {
  onfocusin: ({ target }) => target.matches(":read-write") || target.setAttribute("data-lm-suppress-shortcuts", ""),
};

/** A piece as people read it: without the mark of a word's start. */
export const word = (piece) => piece.replace(/^▁(?=.)/u, "");
