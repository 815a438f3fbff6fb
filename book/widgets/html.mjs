// Create elements: h("button", { type: "button", onclick }, "Press") is a button with the label "Press".

const SVG = ["svg", "g", "line", "polyline", "circle", "text", "title"];

/** Create an element with attributes, event listeners (names that start with "on") and children (elements or text). */
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
 * Attributes for a widget's outermost element. JupyterLab treats a key pressed on a slider or a button as one of its
 * commands, and "dd" deletes a cell, unless that very element opts out. Text fields need not opt out.
 */
export const blockShortcuts = {
  onfocusin: ({ target }) => target.matches(":read-write") || target.setAttribute("data-lm-suppress-shortcuts", ""),
};

/** Return a name or an id that no other element of the page has. In a notebook, each widget has a copy of this module, so it can't count. */
export const uniqueName = (prefix) => `${prefix}-${Math.random().toString(36).slice(2)}`;

/** A token as people read it: without the mark of the start of a word. */
export const withoutMark = (piece) => piece.replace(/^▁(?=.)/u, "");
