// Shows the pictures of a page in the colours that its visitor chose, which need not be those of the system.
function match() {
  const dark = document.body.dataset.mdColorScheme === "slate";
  for (const source of document.querySelectorAll("picture > source[srcset*='-dark.']")) {
    source.media = dark ? "all" : "not all";
  }
}

new MutationObserver(match).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
match();
