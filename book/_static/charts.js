// Altair's output calls vegaEmbed. This wrapper adds two things: a chart takes its colours from the page, light or dark,
// unless it sets its own; and a chart that is wider than its column is drawn again to fit.
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
    const chart = await embed(box, spec, options);
    const available = box.clientWidth;
    const single = !(spec.hconcat || spec.vconcat || spec.concat || spec.facet || spec.repeat);
    if (!single || spec.width === "container" || box.firstElementChild.scrollWidth <= available) return chart;
    chart.finalize();
    return embed(box, { ...spec, width: available, autosize: { type: "fit-x", contains: "padding" } }, options);
  };
})();
