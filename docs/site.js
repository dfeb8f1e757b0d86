// The bar of a copy button is a landmark: each needs a name of its own.
document$.subscribe(() => {
  document.querySelectorAll(".md-code__nav").forEach((bar, at) => bar.setAttribute("aria-label", `Code block ${at + 1}`));
});
