// Altair's output calls vegaEmbed as it stands on the page. Here it learns two manners: a chart takes its colours from the page,
// light or dark, unless the chart says otherwise; and one that is wider than its column is drawn again to fit.
(() => {
  const embed = window.vegaEmbed;
  const ink = "currentColor";
  const guide = { labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: "#8888" };
  const look = {
    background: "transparent",
    axis: guide,
    legend: guide,
    header: guide,
    title: { color: ink, subtitleColor: ink },
    text: { color: ink },
    view: { stroke: null },
  };

  window.vegaEmbed = async (box, spec, options = {}) => {
    options = { renderer: "svg", actions: false, ...options, config: { ...look, ...options.config } };
    const shown = await embed(box, spec, options);
    const room = box.clientWidth;
    const single = !(spec.hconcat || spec.vconcat || spec.concat || spec.facet || spec.repeat);
    if (!single || spec.width === "container" || box.firstElementChild.scrollWidth <= room) return shown;
    shown.finalize();
    return embed(box, { ...spec, width: room, autosize: { type: "fit-x", contains: "padding" } }, options);
  };
})();
