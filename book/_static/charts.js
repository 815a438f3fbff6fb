// Altair's output calls vegaEmbed. This wrapper adds two things: a chart takes its colours from the page, light or dark,
// unless it sets its own; and a chart is never wider than its column, even if that changes, as when a phone is turned.
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

  window.vegaEmbed = async (box, spec, options = {}) => {
    options = { renderer: "svg", actions: false, ...options, config: { ...theme, ...options.config } };
    let chart = await embed(box, spec, options);
    const single = !(spec.hconcat || spec.vconcat || spec.concat || spec.facet || spec.repeat);
    if (!single || spec.width === "container") return chart;

    const drawn = () => box.querySelector("svg, canvas").getBoundingClientRect().width;
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
