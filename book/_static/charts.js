// Altair's output calls vegaEmbed. This wrapper adds three things: a chart takes its colours from the page, light or dark,
// unless it sets its own; and a chart is never wider than its column, even if that changes, as when a phone is turned:
// a single chart is drawn narrower, and one of several panels is made smaller by course.css. Without a mouse, a tap shows
// a chart's tooltip, until the next tap or until the page is scrolled.
(() => {
  const embed = window.vegaEmbed;
  const ink = "currentColor";
  const axisColours = { labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: "#8888" };
  const theme = {
    background: "transparent",
    axis: axisColours,
    legend: axisColours,
    header: axisColours,
    title: { color: ink, subtitleColor: ink },
    text: { color: ink },
    view: { stroke: null },
  };

  const hideTooltip = () => document.getElementById("vg-tooltip-element")?.classList.remove("visible");
  const showTooltip = (event) => {
    if (matchMedia("(hover: none)").matches) event.target.dispatchEvent(new PointerEvent("pointermove", event));
  };
  if (matchMedia("(hover: none)").matches) {
    addEventListener("pointerdown", hideTooltip);
    addEventListener("scroll", hideTooltip, { passive: true });
  }

  window.vegaEmbed = async (box, spec, options = {}) => {
    options = { renderer: "svg", actions: false, ...options, config: { ...theme, ...options.config } };
    let chart = await embed(box, spec, options);
    box.addEventListener("click", showTooltip);
    const single = !(spec.hconcat || spec.vconcat || spec.concat || spec.facet || spec.repeat);
    box.classList.toggle("panels", !single);
    if (!single || spec.width === "container") return chart;

    const drawn = () => box.querySelector("svg, canvas")?.getBoundingClientRect().width ?? 0; // while it is drawn anew, none
    const natural = drawn();
    let canShrink = false;
    const fit = async () => {
      const width = Math.floor(Math.min(natural, box.clientWidth));
      if (!width || Math.abs(width - drawn()) < 1) return; // without a width, it is hidden
      if (canShrink) return chart.view.width(width).runAsync();
      canShrink = true;
      chart.finalize();
      chart = await embed(box, { ...spec, width, autosize: { type: "fit-x", contains: "padding" } }, options);
    };
    let last = fit();
    await last;
    new ResizeObserver(() => (last = last.then(fit))).observe(box); // one after another
    return chart;
  };
})();
