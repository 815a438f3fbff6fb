// "On this page" marks the section that is being read: the last one whose heading is in the top third of the window or
// above it. The theme marks a section only at the moment when its heading scrolls into view, so after a jump, or on the
// way up, another one stays marked.
(() => {
  const contents = document.getElementById("pst-page-toc-nav");
  if (!contents) return;
  const headings = new Map();
  for (const link of contents.querySelectorAll("a")) {
    const heading = document.getElementById(decodeURIComponent(link.hash.slice(1)))?.querySelector("h1, h2, h3, h4, h5, h6");
    if (heading) headings.set(link, heading);
  }
  const links = [...headings.keys()];
  const isAbove = (link, height) => headings.get(link).getBoundingClientRect().top < height;

  const mark = () => {
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 1;
    const chosen = links.find((link) => link.hash === location.hash);
    const current =
      atEnd && chosen && isAbove(chosen, innerHeight) && !isAbove(chosen, 0) // too near the end to be scrolled to the top
        ? chosen
        : links.findLast((link) => isAbove(link, innerHeight / 3));
    if (!current) return;
    for (const link of links) {
      link.classList.toggle("active", link === current);
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    for (const entry of contents.querySelectorAll(".toc-entry")) entry.classList.toggle("active", entry.contains(current));
  };
  for (const event of ["scroll", "hashchange"]) addEventListener(event, mark, { passive: true });
  new ResizeObserver(mark).observe(document.documentElement); // when something is drawn late, or unfolded
  // On a slow device, the theme sets its own mark much later than the scroll event: then ours is set again.
  new MutationObserver(mark).observe(contents, { attributes: true, attributeFilter: ["class"], subtree: true });
})();
