// Shows pictures in the colours that the visitor chose, which need not be those of the system, and names what has no name.
function match() {
  const dark = document.body.dataset.mdColorScheme === "slate";
  for (const source of document.querySelectorAll("picture > source[srcset*='-dark.']")) {
    source.media = dark ? "all" : "not all";
  }
}

new MutationObserver(match).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
match();

function name() {
  document.querySelector(".md-search[role='dialog']")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav) => {
    nav.setAttribute("aria-label", `Code block ${nav.closest("pre")?.id.replace(/\D/g, "") ?? ""}`);
  });
}

new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
name();
