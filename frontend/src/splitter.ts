// Handles between two panes: dragged, or moved by the arrow keys; a double click puts them back.
import { el } from "./dom";
import { keep, kept } from "./kept";

const LEAST = 15, MOST = 85; // percent

/** Puts a handle after `pane`, whose size is the custom property `name` of `box`, in percent of it. */
export function splitter(box: HTMLElement, pane: HTMLElement, name: string, label: string, down: boolean, changed: () => void): void {
  const handle = el("div", {
    class: `splitter ${down ? "down" : "across"}`, role: "separator", tabindex: 0, "aria-label": label, "aria-orientation": down ? "horizontal" : "vertical",
    "aria-valuemin": LEAST, "aria-valuemax": MOST,
  });
  const size = (): number => {
    const [own, whole] = [pane.getBoundingClientRect(), box.getBoundingClientRect()];
    return down ? (100 * own.height) / whole.height : (100 * own.width) / whole.width;
  };
  const set = (percent: number | null): void => {
    const found = percent === null ? null : Math.min(MOST, Math.max(LEAST, percent));
    if (found === null) box.style.removeProperty(`--${name}`);
    else box.style.setProperty(`--${name}`, `${found.toFixed(2)}%`);
    handle.setAttribute("aria-valuenow", String(Math.round(found ?? 50)));
    keep(`pane-${name}`, found);
    changed();
  };
  set(kept<number | null>(`pane-${name}`, null));
  handle.onpointerdown = (event) => {
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = (now) => {
      const whole = box.getBoundingClientRect(), own = pane.getBoundingClientRect();
      set(down ? (100 * (now.clientY - own.top)) / whole.height : (100 * (now.clientX - own.left)) / whole.width);
    };
    handle.onpointerup = handle.onpointercancel = () => (handle.onpointermove = null);
  };
  handle.ondblclick = () => set(null);
  handle.onkeydown = (event) => {
    const by = { [down ? "ArrowUp" : "ArrowLeft"]: -2, [down ? "ArrowDown" : "ArrowRight"]: 2 }[event.key];
    if (!by) return;
    event.preventDefault();
    set(size() + by);
  };
  pane.after(handle);
}
