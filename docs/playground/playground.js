// Shows the recorded runs of the playground: a visitor chooses texts for the slots of a query, and sees its matches.
(() => {
  const COLOURS = ["#1f5fbf", "#a8430a", "#1a7045", "#8a3fa0", "#8a1538"];
  const SLOT = /\{\{(\w+)\}\}/g;
  const place = document.getElementById("try");
  const examples = window.recorded;
  let name = Object.keys(examples)[0];
  let chosen = {};

  function make(kind, options = {}, ...children) {
    const { data, ...properties } = options;
    const node = Object.assign(document.createElement(kind), properties);
    for (const [key, value] of Object.entries(data || {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // the address names example and choices, so that a link leads to what its writer saw
  function fromAddress() {
    const [wanted, numbers] = decodeURIComponent(location.hash.slice(1)).split(":");
    if (!(wanted in examples)) return;
    name = wanted;
    const slots = Object.keys(examples[name].choices);
    const given = (numbers || "").split(".").map(Number);
    chosen = Object.fromEntries(slots.map((slot, k) => [slot, given[k] || 0]));
    if (!(key() in examples[name].runs)) chosen = {};
  }

  function key() {
    return Object.keys(examples[name].choices).map((slot) => chosen[slot] || 0).join(".");
  }

  function pick() {
    const buttons = Object.entries(examples).map(([other, { title }]) => {
      const button = make("button", { type: "button", textContent: title, data: { "aria-pressed": other === name } });
      button.onclick = () => {
        name = other;
        chosen = {};
        show(other);
      };
      return button;
    });
    return make("div", { className: "pg-pick", data: { role: "group", "aria-label": "Examples" } }, ...buttons);
  }

  function slot(of) {
    const texts = examples[name].choices[of];
    const options = texts.map((text, k) => make("option", { value: k, textContent: text.trim() || "(nothing)", selected: k === (chosen[of] || 0) }));
    const select = make("select", { data: { "aria-label": of, "data-slot": of } }, ...options);
    select.onchange = () => {
      chosen[of] = Number(select.value);
      show(null, of);
    };
    return select;
  }

  function query() {
    const parts = examples[name].query.split(SLOT);
    const nodes = parts.map((part, k) => (k % 2 ? slot(part) : part));
    return make("div", { className: "pg-query" }, ...nodes);
  }

  function said(run) {
    if (run.error) return [make("p", {}, "ceql refuses this query, and says:"), make("pre", { className: "pg-error", textContent: run.error })];
    const nodes = (run.notes || []).map((note) => make("p", {}, `Warning: ${note}.`));
    if (run.count) {
      const more = run.count > run.matches.length ? `, of which ${run.matches.length} are shown` : "";
      return [make("p", {}, make("strong", {}, `${run.count} ${run.count === 1 ? "match" : "matches"}`), more), ...nodes];
    }
    const reasons = run.why.map((reason) => make("li", {}, reason));
    return [make("p", {}, make("strong", {}, "No match."), reasons.length ? " diagnose says:" : " No clause alone is to blame."), make("ul", {}, ...reasons)];
  }

  function short(value) {
    return typeof value === "string" ? value.replace(/^\d{4}-\d\d-\d\d /, "") : String(value ?? "");
  }

  function table(run) {
    const { events } = examples[name];
    const matches = run.matches || [];
    const measures = [...new Set(matches.flatMap((match) => Object.keys(match.measures || {})))];
    const variables = [...new Set(matches.flatMap((match) => Object.keys(match.events)))];
    const head = Object.keys(events[0]).map((attribute) =>
      make("tr", {}, make("th", { scope: "row" }, attribute), ...events.map((event) => make("td", {}, short(event[attribute]))),
        ...measures.map((measure) => (attribute === "type" ? make("th", { scope: "col" }, measure) : make("td")))));
    const rows = matches.map((match, number) => {
      const bound = {};
      for (const [variable, positions] of Object.entries(match.events)) {
        for (const position of positions) (bound[position] ||= []).push(variable);
      }
      const [first, last] = [Math.min(...Object.keys(bound)), Math.max(...Object.keys(bound))];
      const cells = events.map((_, position) => {
        const marks = (bound[position] || []).map((variable) => {
          const mark = make("span", { className: "pg-mark", textContent: variable });
          mark.style.background = COLOURS[variables.indexOf(variable) % COLOURS.length];
          return mark;
        });
        return make("td", { className: position >= first && position <= last ? "pg-in" : "" }, ...marks);
      });
      return make("tr", {}, make("th", { scope: "row" }, `match ${number + 1}`), ...cells,
        ...measures.map((measure) => make("td", {}, short(match.measures[measure]))));
    });
    return make("div", { className: "pg-wide", tabIndex: 0, data: { role: "region", "aria-label": "Events and matches" } },
      make("table", { className: "pg-table" }, make("thead", {}, ...head), make("tbody", {}, ...rows)));
  }

  function text() {
    const { query: whole, choices } = examples[name];
    const filled = whole.replace(SLOT, (_, of) => choices[of][chosen[of] || 0]);
    return filled.split("\n").map((line) => line.replace(/ {2,}/g, " ").trim()).filter(Boolean).join("\n");
  }

  function code() {
    const { events } = examples[name];
    const lines = events.map((event) => `    ${JSON.stringify(event)},`);
    const source = `import ceql\n\nevents = [\n${lines.join("\n")}\n]\nprint(ceql.match("""\n${text()}\n""", events))`;
    return make("details", {}, make("summary", {}, "Run it yourself"), make("pre", {}, make("code", { textContent: source })));
  }

  // draws everything anew; the keyboard stays where it was
  function show(pressed, changed) {
    const run = examples[name].runs[key()];
    const open = place.querySelector("details")?.open;
    place.replaceChildren(pick(), make("p", {}, examples[name].question), query(),
      make("div", { className: "pg-said", data: { "aria-live": "polite" } }, ...said(run)), table(run), code());
    if (open) place.querySelector("details").open = true;
    if (changed) place.querySelector(`[data-slot="${changed}"]`).focus();
    if (pressed) place.querySelector('[aria-pressed="true"]').focus();
    if (pressed || changed) history.replaceState(null, "", `#${encodeURIComponent(name)}:${key()}`);
  }

  fromAddress();
  show();
})();
