"use strict";
// Small builders of elements and charts. Everything drawn has its content in words as well.

const SVG = "http://www.w3.org/2000/svg";

/** el builds an element: el("p.note", {id: "x"}, "text", child, ...). */
function el(what, attrs, ...children) {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  return fill(e, attrs, children);
}

function svg(tag, attrs, ...children) { return fill(document.createElementNS(SVG, tag), attrs, children); }

function fill(e, attrs, children) {
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k === "style") for (const [p, x] of Object.entries(v)) e.style.setProperty(p, x);
    else e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

/** figure is a number that keeps its exact value beside what is shown. key is its path in the state. */
function figure(key, value, text) { return el("data", {value: String(value), "data-key": key}, text); }

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
function int(x) { return whole.format(x); }
function fixed(x, digits) { return Number(x).toFixed(digits); }
function percent(x) { return together(`${Math.round(100 * x)} %`); }
/** together keeps each number on one line with its percent sign. */
function together(text) { return text.replace(/(\d) %/g, "$1\u00a0%"); }
function compact(x) { return x >= 1e6 ? `${fixed(x / 1e6, 2)} M` : x >= 1e5 ? `${fixed(x / 1e3, 0)} k` : int(x); }
function duration(s) {
  s = Math.round(s);
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s} s`;
}
/** clocked is a duration in few characters: 1:05 h, 4:07 min, 32 s. */
function clocked(s) {
  s = Math.round(s);
  const two = (x) => String(x).padStart(2, "0");
  if (s >= 3600) return `${int(Math.floor(s / 3600))}:${two(Math.floor(s / 60) % 60)} h`;
  return s >= 60 ? `${Math.floor(s / 60)}:${two(s % 60)} min` : `${s} s`;
}
function seconds(s) { return s >= 10 ? `${fixed(s, 1)} s` : s >= 0.01 ? `${int(s * 1000)} ms` : `${fixed(s * 1000, 1)} ms`; }

/** room is the width of an element in pixels, so that text in a chart keeps its size. */
function room(id) { return Math.max(260, document.getElementById(id).clientWidth); }

/** ticks are about n round numbers over a range. */
function ticks(from, to, n) {
  const raw = (to - from) / n || 1, unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((k) => k * unit >= raw) * unit;
  const out = [];
  for (let t = Math.ceil(from / step) * step; t <= to + step * 1e-9; t += step) out.push(t);
  return out;
}

/** smoothed is a running mean in which a point weighs less the older it is. */
function smoothed(ys) {
  const keep = 1 - 1 / Math.max(1, Math.min(20, ys.length / 16));
  let mean = 0, weight = 0;
  return ys.map((y) => { mean = keep * mean + y; weight = keep * weight + 1; return mean / weight; });
}

/** curve draws y over x with axes. label says what it shows in words; dots marks each point, smooth adds a running mean. */
function curve(xs, ys, {label, wide, dots = false, smooth = false, digits = 2}) {
  const w = wide, h = Math.round(Math.min(280, Math.max(180, w * 0.38))), left = 48, right = 12, top = 10, bottom = 26;
  const x1 = xs[xs.length - 1], x0 = Math.min(0, xs[0]);
  let y0 = Math.min(...ys), y1 = Math.max(...ys);
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const pad = (y1 - y0) * 0.06;
  y0 -= pad; y1 += pad;
  const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (w - left - right);
  const py = (y) => top + ((y1 - y) / (y1 - y0)) * (h - top - bottom);
  const g = svg("svg", {class: "chart", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": label});
  for (const t of ticks(y0, y1, 4)) {
    g.append(svg("line", {class: "grid", x1: left, x2: w - right, y1: py(t), y2: py(t)}));
    g.append(svg("text", {x: left - 6, y: py(t) + 4, "text-anchor": "end"}, fixed(t, digits)));
  }
  for (const t of ticks(x0, x1, w < 420 ? 3 : 5)) {
    g.append(svg("text", {x: px(t), y: h - 6, "text-anchor": t > x1 * 0.97 ? "end" : "middle"}, int(t)));
  }
  const line = (of, name) => g.append(svg("polyline", {class: name, points: xs.map((x, i) => `${px(x).toFixed(1)},${py(of[i]).toFixed(1)}`).join(" ")}));
  const last = smooth ? smoothed(ys) : ys;
  if (smooth) line(ys, "curve faint");
  line(last, "curve");
  const marked = dots ? xs.map((_, i) => i) : [xs.length - 1];
  for (const i of marked) g.append(svg("circle", {class: "dot", cx: px(xs[i]), cy: py(last[i]), r: 4}));
  return g;
}

/** columns draws shares from 0 to 1 over positions 1, 2, ...: solid, with wider faint ones behind and a mark across each for a third list.
 *  Where there is room, the solid ones stand below in figures. */
function columns({solid, faint, marks, wide, label}) {
  const w = wide, h = Math.round(Math.min(240, Math.max(160, w * 0.32))), left = 48, top = 18, step = (w - left) / solid.length, roomy = step >= 32, bottom = roomy ? 42 : 24;
  const most = Math.max(0.05, ...solid, ...faint, ...marks), width = Math.min(44, step * 0.7);
  const g = svg("svg", {class: "chart", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": label});
  const py = (y) => h - bottom - (y / (most * 1.08)) * (h - bottom - top);
  for (const t of ticks(0, most, 3)) {
    g.append(svg("line", {class: "grid", x1: left, x2: w, y1: py(t), y2: py(t)}));
    g.append(svg("text", {x: left - 6, y: py(t) + 4, "text-anchor": "end"}, percent(t)));
  }
  const bar = (name, mid, width, y) => g.append(svg("rect", {class: name, x: mid - width / 2, width, y: py(y), height: h - bottom - py(y), rx: 3}));
  solid.forEach((s, i) => {
    const mid = left + (i + 0.5) * step;
    if (i < faint.length) bar("dot behind", mid, width, faint[i]);
    bar("dot", mid, width * 0.6, s);
    if (i < marks.length) g.append(svg("line", {class: "mark", x1: mid - width / 2, x2: mid + width / 2, y1: py(marks[i]), y2: py(marks[i])}));
    g.append(svg("text", {x: mid, y: h - bottom + 16, "text-anchor": "middle"}, String(i + 1)));
    if (roomy) g.append(svg("text", {class: "figure", x: mid, y: h - 6, "text-anchor": "middle"}, percent(s)));
  });
  return g;
}

/** stack draws one column a cell, each activity in its colour, work at the bottom. */
function stack(shares, cells, order, label) {
  const g = svg("svg", {viewBox: `0 0 ${cells} 1`, preserveAspectRatio: "none", "shape-rendering": "crispEdges", role: "img", "aria-label": label});
  const n = Math.max(0, ...Object.values(shares).map((s) => s.length));
  for (let i = 0; i < n; i++) {
    let y = 1;
    for (const a of order) {
      const s = (shares[a] || [])[i] || 0;
      if (s <= 0) continue;
      y -= s;
      g.append(svg("rect", {x: cells - n + i, y: Math.max(0, y), width: 1.04, height: s, style: {fill: `var(--${a.replace(" ", "-")})`}}));
    }
  }
  return g;
}
