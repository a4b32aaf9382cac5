// What the timeline is drawn on: a canvas on the page, or SVG to take along. Both have the same few strokes.

export type Shape = 0 | 1 | 2 | 3; // disc, square, diamond, triangle

export interface Surface {
  rect(x: number, y: number, width: number, height: number, fill: string, alpha?: number, radius?: number): void;
  line(x1: number, y1: number, x2: number, y2: number, stroke: string, width?: number, alpha?: number, dash?: boolean): void;
  mark(shape: Shape, x: number, y: number, size: number, fill: string, ring?: string): void;
  text(text: string, x: number, y: number, fill: string, align?: "left" | "center" | "right", bold?: boolean): void;
  clip(x: number, y: number, width: number, height: number, draw: () => void): void;
  measure(text: string): number;
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";

export function onCanvas(context: CanvasRenderingContext2D): Surface {
  function path(shape: Shape, x: number, y: number, r: number): void {
    context.beginPath();
    if (shape === 0) context.arc(x, y, r, 0, 7);
    else if (shape === 1) context.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
    else corners(shape, x, y, r).forEach(([a, b], k) => (k ? context.lineTo(a, b) : context.moveTo(a, b)));
    context.closePath();
  }
  return {
    rect(x, y, width, height, fill, alpha = 1, radius = 0) {
      context.globalAlpha = alpha;
      context.fillStyle = fill;
      context.beginPath();
      context.roundRect(x, y, Math.max(0, width), height, radius);
      context.fill();
      context.globalAlpha = 1;
    },
    line(x1, y1, x2, y2, stroke, width = 1, alpha = 1, dash = false) {
      context.globalAlpha = alpha;
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash ? [4, 3] : []);
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
    },
    mark(shape, x, y, size, fill, ring) {
      path(shape, x, y, size);
      context.fillStyle = fill;
      context.fill();
      if (ring) {
        context.strokeStyle = ring;
        context.lineWidth = 1.5;
        context.stroke();
      }
    },
    text(text, x, y, fill, align = "left", bold = false) {
      context.font = bold ? `600 ${FONT}` : FONT;
      context.fillStyle = fill;
      context.textAlign = align;
      context.textBaseline = "alphabetic";
      context.fillText(text, x, y);
    },
    clip(x, y, width, height, draw) {
      context.save();
      context.beginPath();
      context.rect(x, y, width, height);
      context.clip();
      draw();
      context.restore();
    },
    measure(text) {
      context.font = FONT;
      return context.measureText(text).width;
    },
  };
}

/** Collects SVG; `done` gives the document. */
export function onSvg(width: number, height: number, background: string): Surface & { done(): string } {
  const parts: string[] = [];
  let clips = 0;
  const n = (value: number): string => String(Math.round(value * 10) / 10);
  const escape = (text: string): string =>
    text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);
  return {
    rect(x, y, w, h, fill, alpha = 1, radius = 0) {
      const round = radius ? ` rx="${radius}"` : "";
      parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(Math.max(0, w))}" height="${n(h)}"${round} fill="${fill}" fill-opacity="${alpha}"/>`);
    },
    line(x1, y1, x2, y2, stroke, w = 1, alpha = 1, dash = false) {
      const dashed = dash ? ' stroke-dasharray="4 3"' : "";
      parts.push(`<path d="M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}" stroke="${stroke}" stroke-width="${w}" stroke-opacity="${alpha}"${dashed}/>`);
    },
    mark(shape, x, y, r, fill, ring) {
      const edge = ring ? ` stroke="${ring}" stroke-width="1.5"` : "";
      if (shape === 0) parts.push(`<circle cx="${n(x)}" cy="${n(y)}" r="${r}" fill="${fill}"${edge}/>`);
      else {
        const points = shape === 1 ? square(x, y, 0.9 * r) : corners(shape, x, y, r);
        parts.push(`<polygon points="${points.map((p) => p.map(n).join(",")).join(" ")}" fill="${fill}"${edge}/>`);
      }
    },
    text(text, x, y, fill, align = "left", bold = false) {
      const anchor = { left: "start", center: "middle", right: "end" }[align];
      parts.push(`<text x="${n(x)}" y="${n(y)}" fill="${fill}" text-anchor="${anchor}"${bold ? ' font-weight="600"' : ""}>${escape(text)}</text>`);
    },
    clip(x, y, w, h, draw) {
      const id = `c${clips++}`;
      parts.push(`<clipPath id="${id}"><rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"/></clipPath><g clip-path="url(#${id})">`);
      draw();
      parts.push("</g>");
    },
    measure: (text) => 6.4 * text.length,
    done: () =>
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
      `font-family="system-ui, sans-serif" font-size="12"><rect width="100%" height="100%" fill="${background}"/>${parts.join("")}</svg>\n`,
  };
}

const square = (x: number, y: number, r: number): [number, number][] => [
  [x - r, y - r], [x + r, y - r], [x + r, y + r], [x - r, y + r],
];

function corners(shape: Shape, x: number, y: number, r: number): [number, number][] {
  if (shape === 2) return [[x, y - 1.25 * r], [x + 1.25 * r, y], [x, y + 1.25 * r], [x - 1.25 * r, y]];
  return [[x, y - 1.2 * r], [x + 1.15 * r, y + 0.9 * r], [x - 1.15 * r, y + 0.9 * r]];
}
