// Bring a page's widgets to life, each when it comes into view: <div data-widget="NAME"> is handed to NAME.mjs.
// A chapter writes that element itself, with a table inside: that is what a notebook shows, or a page without scripts.
//
// A widget is a module with `export default { render({ model, el }) }`, as anywidget has it, so that the same file can
// serve in a notebook. `model.get(name)` is what the page gave it, and where its files are.

const folder = new URL("../models/", import.meta.url).href;

async function mount(el) {
  const values = { ...JSON.parse(el.dataset.values ?? "{}"), folder };
  const widget = await import(`./${el.dataset.widget}.mjs`);
  const within = el.contains(document.activeElement);
  await widget.default.render({ model: { get: (name) => values[name] }, el });
  if (within) el.querySelector("a[href], :enabled, [tabindex='0']")?.focus(); // what had it is gone
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      mount(target).catch((error) => console.error(error)); // what stood there before stays
    }
  },
  { rootMargin: "200px" },
);
for (const el of document.querySelectorAll("[data-widget]")) observer.observe(el);
