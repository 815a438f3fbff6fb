// Start the widgets of a page, each when it scrolls into view: <div data-widget="NAME"> is rendered by NAME.mjs. The element
// has content of its own, in a chapter a table, which is shown in a notebook and on a page without JavaScript.
//
// A widget is a module with `export default { render({ model, el }) }`, as anywidget defines it, so that the same module
// works in a notebook. `model.get(name)` returns a value from the page, or an address: that of the folder of models or of chapters.

const folder = new URL("../models/", import.meta.url).href;
const chapters = new URL("../../chapters/", import.meta.url).href;

async function mount(el) {
  const values = { ...JSON.parse(el.dataset.values ?? "{}"), folder, chapters };
  const widget = await import(`./${el.dataset.widget}.mjs`);
  const hadFocus = el.contains(document.activeElement);
  await widget.default.render({ model: { get: (name) => values[name] }, el });
  if (hadFocus) el.querySelector("a[href], :enabled, [tabindex='0']")?.focus(); // the focused element was replaced
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      mount(target).catch((error) => console.error(error)); // the previous content stays
    }
  },
  { rootMargin: "200px" },
);
for (const el of document.querySelectorAll("[data-widget]")) observer.observe(el);
