(name, data) => {
  // A timeline that zooms, moves and tells of its events; with `ranks`, also a table of matches that sorts and selects.
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  for (const days of [1, 2, 7, 14, 30, 90]) STEPS.push(days * 86400);
  const TICKS = 5.5;
  const LEAST = 480;
  const { width, left, margin, top, bottom, height } = data.size;
  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text; // never as HTML: it may come from the data
    if (kind) made.className = kind;
    return made;
  };
  const set = (element, values) => {
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    return element;
  };
  const drawn = (tag, values) => set(document.createElementNS(SVG, tag), values);
  const roundUp = (least) => {
    const power = 10 ** Math.floor(Math.log10(least));
    return power * ([1, 2, 5].find((n) => n * power >= least * (1 - 1e-9)) ?? 10);
  };
  const stepOf = (span) => {
    if (!data.seconds || span <= 1) return roundUp(span / TICKS);
    return STEPS.find((step) => span / step <= TICKS) ?? 86400 * roundUp(span / 86400 / TICKS);
  };
  const iso = (seconds) => {
    const time = new Date(Math.round(seconds * 1000));
    return isNaN(time) ? "" : time.toISOString();
  };
  const label = (at, step) => {
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    if (!data.seconds) {
      return at.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: Math.min(20, decimals) });
    }
    if (!data.since) {
      if (step >= 86400) return iso(at).slice(0, 10);
      if (step >= 60) return iso(at).slice(11, 16);
      const fraction = step < 1 ? (at - Math.floor(at)).toFixed(decimals).slice(1) : "";
      return iso(Math.floor(at)).slice(11, 19) + fraction;
    }
    let rest = Number(at.toFixed(9));
    const parts = [];
    for (const [unit, size] of UNITS) {
      const n = Math.floor(rest / size);
      rest -= n * size;
      if (n) parts.push(`${n} ${unit}`);
    }
    if (rest) parts.push(`${Number(rest.toPrecision(9))} s`);
    return parts.join(" ") || "0";
  };

  function timeline(root, chosen) {
    const svg = root.querySelector("svg");
    const lanes = set(svg.parentElement, { tabindex: 0, role: "group", "aria-label": "Timeline, to zoom with + and -" });
    lanes.classList.add("ceql-lanes");
    const [grid, axis, legend] = ["grid", "axis", "legend"].map((part) => svg.querySelector(`.ceql-${part}`));
    const caption = axis.lastElementChild;
    const pinned = (group, kind) => {
      const own = svg.cloneNode(false);
      for (const key of ["role", "aria-label"]) own.removeAttribute(key);
      own.classList.add("ceql-pinned");
      set(own, { "aria-hidden": "true" }).style[kind] = 0;
      own.append(group);
      return own;
    };
    const head = pinned(legend, "top");
    const foot = pinned(axis, "bottom");
    svg.before(head);
    svg.after(foot);
    const back = drawn("rect", { x: 0, height: 24, fill: "#2f80ed", "fill-opacity": 0.25, class: "ceql-hidden" });
    const brush = drawn("rect", { y: top, height: bottom - top, fill: "currentColor", "fill-opacity": 0.15 });
    svg.prepend(back);
    const spans = [...svg.querySelectorAll(".ceql-lane")].map((lane, k) => {
      const marks = [...lane.querySelectorAll(":is(circle, path)")];
      const places = data.lanes[k].map((event) => event[0]);
      marks.forEach((mark, j) => {
        mark.querySelector("title")?.remove();
        mark.classList.add("ceql-mark");
        mark.ceql = data.lanes[k][j];
      });
      return { line: lane.querySelector("line"), marks, places, low: Math.min(...places), high: Math.max(...places) };
    });
    const first = (width - left - 2 * margin) / (data.high - data.low);
    let [low, high, wide] = [data.low, data.high, width];
    const right = () => wide - 2 * margin;
    const x = (at) => left + ((at - low) * (right() - left)) / (high - low);
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const place = ((event.clientX - box.left) * wide) / box.width;
      return low + ((Math.min(right(), Math.max(left, place)) - left) * (high - low)) / (right() - left);
    };

    function draw() {
      wide = Math.max(LEAST, margin + legend.getBBox().width, lanes.clientWidth);
      for (const [part, y, tall] of [[head, 0, top], [svg, top, bottom - top], [foot, bottom, height - bottom]]) {
        set(part, { viewBox: `0 ${y} ${wide} ${tall}`, width: wide, height: tall });
      }
      back.setAttribute("width", wide);
      const step = stepOf(high - low);
      grid.replaceChildren();
      axis.replaceChildren(caption);
      for (let k = Math.ceil(low / step - 1e-9) + 0; k * step <= high + step * 1e-9; k++) {
        const place = x(k * step);
        grid.append(
          drawn("line", { x1: place, x2: place, y1: top, y2: bottom, stroke: "currentColor", "stroke-opacity": 0.15 }),
        );
        const text = drawn("text", { x: place, y: bottom + 18, "text-anchor": "middle" });
        text.textContent = label(k * step, step);
        axis.append(text);
      }
      caption.setAttribute("x", wide - margin);
      if (data.seconds && !data.since) {
        const days = [...new Set([low, high].map((time) => iso(time).slice(0, 10)))];
        caption.textContent = `${data.caption}, ${days.join(" to ")}`;
      }
      for (const span of spans) {
        span.line.classList.toggle("ceql-hidden", span.high < low || span.low > high);
        set(span.line, { x1: x(Math.max(low, span.low)), x2: x(Math.min(high, span.high)) });
        span.marks.forEach((mark, j) => {
          const place = span.places[j];
          mark.classList.toggle("ceql-hidden", place < low || place > high);
          mark.setAttribute("transform", `translate(${x(place) - left - (place - data.low) * first})`);
        });
      }
    }
    function show(from, to) {
      const least = Math.max((data.high - data.low) * 1e-6, Math.abs(data.high) * 1e-13);
      const span = Math.min(data.high - data.low, Math.max(least, to - from));
      low = Math.min(data.high - span, Math.max(data.low, from));
      high = low + span;
      tip.hidden = true;
      draw();
    }
    const zoom = (middle, factor) => show(middle - (middle - low) * factor, middle + (high - middle) * factor);
    const halve = (factor) => zoom((low + high) / 2, factor);
    const move = (share) => show(low + share * (high - low), high + share * (high - low));
    const all = () => show(data.low, data.high);

    const tip = make("div", undefined, "ceql-tip");
    tip.hidden = true;
    function hover(event) {
      const found = event.target.ceql;
      tip.hidden = !found;
      if (!found) return;
      const list = make("dl");
      found[3].forEach((value, k) => {
        if (value !== null) list.append(make("dt", data.attributes[k]), make("dd", value));
      });
      tip.replaceChildren(make("strong", `${found[1]}: row ${found[2]}`), list);
      const box = root.getBoundingClientRect();
      const place = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
      Object.assign(tip.style, { left: `${Math.max(0, place)}px`, top: `${event.clientY - box.top + 14}px` });
    }

    let from = null;
    const stop = () => {
      from = null;
      brush.remove();
    };
    lanes.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && svg.contains(event.target)) from = { place: event.clientX, at: at(event) };
    });
    lanes.addEventListener("pointermove", (event) => {
      if (from === null) return hover(event);
      if (Math.abs(event.clientX - from.place) < 5) return;
      if (!lanes.hasPointerCapture(event.pointerId)) lanes.setPointerCapture(event.pointerId);
      tip.hidden = true;
      const ends = [x(from.at), x(at(event))].sort((one, other) => one - other);
      svg.append(set(brush, { x: ends[0], width: ends[1] - ends[0] }));
    });
    lanes.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const ends = [from.at, at(event)].sort((one, other) => one - other);
      if (Math.abs(event.clientX - from.place) >= 5) show(...ends);
      else {
        const box = svg.getBoundingClientRect();
        chosen(Math.floor((event.clientY - box.top) / (box.height / spans.length)));
      }
      stop();
    });
    lanes.addEventListener("pointercancel", stop);
    lanes.addEventListener("pointerleave", () => (tip.hidden = true));
    lanes.addEventListener("dblclick", all);
    lanes.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && !lanes.matches(":focus-within")) return; // the page scrolls
        event.preventDefault();
        zoom(at(event), Math.exp(event.deltaY * 0.002));
      },
      { passive: false },
    );
    const keys = { "+": () => halve(0.5), "=": () => halve(0.5), "-": () => halve(2), 0: all, Escape: stop };
    Object.assign(keys, { ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25) });
    lanes.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
      event.preventDefault();
      event.stopPropagation(); // a notebook has keys of its own
      keys[event.key]();
    });
    const tools = make("div", undefined, "ceql-tools");
    for (const [text, hint, act] of [["+", "Zoom in", () => halve(0.5)], ["−", "Zoom out", () => halve(2)],
      ["All", "Show all", all]]) {
      const button = set(make("button", text), { type: "button", "aria-label": hint });
      button.addEventListener("click", act);
      tools.append(button);
    }
    tools.append(make("span", "Drag to zoom in. Click, then use the wheel, + − ← → and 0."));
    lanes.after(tools);
    root.append(tip);
    new ResizeObserver(draw).observe(lanes);
    draw();
    return (k) => {
      const y = top + (k * (bottom - top)) / spans.length;
      set(back, { y }).classList.remove("ceql-hidden");
      reveal(lanes, y - top, 24 + height - bottom);
    };
  }

  function reveal(box, from, tall) {
    if (from < box.scrollTop) box.scrollTop = from;
    else if (from + tall > box.scrollTop + box.clientHeight) box.scrollTop = from + tall - box.clientHeight;
  }

  function explorer(root) {
    const table = root.querySelector(".ceql-matches");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const events = set(make("div", undefined, "ceql-events"), { "aria-live": "polite" });
    root.append(events);
    const text = new Intl.Collator(undefined, { numeric: true });
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((cell, k) => {
      const button = set(make("button", cell.textContent), { type: "button" });
      cell.replaceChildren(button);
      button.addEventListener("click", () => sort(cell, k));
    });
    function keysOf(k) {
      if (data.ranks[k]) return data.ranks[k];
      const texts = rows.map((row) => row.cells[k].textContent);
      const numbers = texts.every((one) => one === "" || !isNaN(one));
      return texts.map((one) => (one === "" ? null : numbers ? Number(one) : one));
    }
    function sort(cell, k) {
      const down = cell.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keys = keysOf(k);
      const compare = (one, other) => {
        if (keys[one] === null || keys[other] === null) return (keys[one] === null) - (keys[other] === null);
        const order = typeof keys[one] === "number" ? keys[one] - keys[other] : text.compare(keys[one], keys[other]);
        return down ? -order : order;
      };
      body.append(...[...rows.keys()].sort(compare).map((number) => rows[number]));
    }
    function select(k) {
      if (!rows[k]) return;
      for (const row of rows) row.removeAttribute("aria-current");
      rows[k].setAttribute("aria-current", "true");
      reveal(table.parentElement, rows[k].offsetTop - table.tHead.offsetHeight, 2 * rows[k].offsetHeight);
      light(k);
      const own = data.lanes[k];
      const all = data.lengths[k];
      const count = own.length < all ? `${own.length} of ${all} events` : `${all} event${all === 1 ? "" : "s"}`;
      const shown = make("table");
      const head = shown.createTHead().insertRow();
      const numbers = [false, true, ...data.numbers];
      ["variable", "row", ...data.attributes].forEach((one, j) => {
        head.append(set(make("th", one, numbers[j] ? "ceql-number" : ""), { scope: "col" }));
      });
      const into = shown.createTBody();
      for (const [, variable, row, values] of own) {
        const line = into.insertRow();
        [variable, row, ...values].forEach((one, j) => line.append(make("td", one ?? "", numbers[j] ? "ceql-number" : "")));
      }
      const box = set(make("div", undefined, "ceql-scroll"), { tabindex: 0, role: "region", "aria-label": "Events" });
      box.append(shown);
      events.replaceChildren(make("h2", `Match ${k + 1}: ${count}`), box);
    }
    rows.forEach((row, k) => {
      row.tabIndex = 0;
      row.addEventListener("click", () => select(k));
      row.addEventListener("keydown", (event) => {
        const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
        if (event.key !== "Enter" && event.key !== " " && !next) return;
        event.preventDefault();
        event.stopPropagation();
        next ? next.focus() : select(k);
      });
    });
    const light = rows.length ? timeline(root, select) : () => {};
    select(0);
  }

  for (const root of document.querySelectorAll(`[data-ceql="${name}"]`)) {
    if (root.ceql) continue;
    root.ceql = true;
    if (data.ranks) explorer(root);
    else timeline(root, () => {});
  }
}
