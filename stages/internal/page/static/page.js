"use strict";
// The page: it draws a state, again with each that comes. It never changes what the state says.

const STAGES = ["batch", "target", "pack", "draft"];
// Work first, then the causes of waiting.
const ACTIVITIES = {
  "compute": "compute", "copy": "copy", "step": "optimizer step", "no input": "waits: no input", "no slot": "waits: no slot",
  "no credit": "waits: no credit", "window": "waits: window", "starting": "starting",
};
const WORK = ["compute", "copy", "step"];
const KINDS = {forward: "work", train: "work", build: "work", pack: "copy", copy: "copy", "credit wait": "wait", "slot wait": "slot", commit: "settle", acknowledge: "settle"};

const $ = (id) => document.getElementById(id);
const put = (id, ...nodes) => $(id).replaceChildren(...nodes);
const say = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

function render(s) {
  document.title = `${s.total ? Math.floor((100 * s.windows) / s.total) + " % · " : ""}${s.run || "Penstock"}`;
  say("run", s.run || "");
  life(s);
  const bar = $("progress");
  bar.setAttribute("aria-valuemax", s.total || 1);
  bar.setAttribute("aria-valuenow", s.windows);
  bar.setAttribute("aria-valuetext", `${s.windows} of ${s.total} steps`);
  $("progress-bar").style.width = `${(100 * s.windows) / (s.total || 1)}%`;
  figures(s);
  put("flow", ...flow(s));
  timelines(s);
  loss(s);
  acceptance(s);
  buckets(s);
  mix(s);
  positions(s);
  ledger(s);
  put("slowest", s.slowest.length ? el("div.falls", {}, ...s.slowest.map(waterfall)) : note("No batch has gone all the way yet."));
  put("problems", ...(s.problems.length ? s.problems.map(problem) : [el("li.note", {}, "None.")]));
  say("where", s.dir);
  $("seq").value = s.seq;
  $("seq").textContent = s.seq;
}

/** life says how the run is: as the state has it, or that nothing new comes. Then what is shown stays, marked as old. */
function life(s) {
  document.body.dataset.life = lost ? "lost" : s.ended ? "ended" : "live";
  if (lost) health("warn", `The connection to the run is lost: what you see is how it was at ${clock(s.at)}.`);
  else health(s.health.level, s.health.text);
}

let spoken = "";
/** health shows how the run is, and says it to a screen reader when it is another: not with each number in it. */
function health(level, text) {
  text = together(text);
  $("health").dataset.level = level;
  say("health-text", text);
  const gist = level + text.split(/[,.:]/)[0];
  if (gist !== spoken) say("heard", text);
  spoken = gist;
}

function note(text) { return el("p.note", {}, text); }

function pairs(id, list) { put(id, ...list.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))); }

function figures(s) {
  pairs("figures", [
    ["step of " + int(s.total), figure("windows", s.windows, int(s.windows))],
    ["time left", figure("seconds_left", s.seconds_left, s.done ? "done" : s.ended || s.seconds_left < 0 ? "–" : clocked(s.seconds_left))],
    ["loss", figure("loss", s.loss, s.windows ? fixed(s.loss, 3) : "–")],
    ...(s.cross_entropy && s.cross_entropy !== s.loss ? [["cross-entropy", figure("cross_entropy", s.cross_entropy, fixed(s.cross_entropy, 3))]] : []),
    ["accepted tokens a round", figure("accept_length", s.accept_length, s.accept_length ? fixed(s.accept_length, 3) : "–")],
    [s.ended ? "tokens a second, mean" : "tokens a second", figure("tokens_s", s.tokens_s, compact(s.tokens_s))],
    [s.ended ? "drafted slots a second, mean" : "drafted slots a second", figure("slots_s", s.slots_s, compact(s.slots_s))],
  ]);
}

function flow(s) {
  const out = [];
  STAGES.forEach((stage, i) => {
    if (i > 0) out.push(edge(s.edges[i - 1], s.ended ? 0 : s.rates[stage] || 0));
    const own = s.stages.map((x, at) => [x, at]).filter(([x]) => x.instance === stage || x.instance.startsWith(stage + "-"));
    out.push(el("div.stage", {},
      el("h3", {}, el("span", {}, stage), s.ended ? null : el("span.rate", {}, figure(`rates.${stage}`, s.rates[stage] || 0, `${fixed(s.rates[stage] || 0, 1)} batches/s`))),
      ...(own.length ? own.map(([x, at]) => instance(x, at)) : [note("not started")])));
  });
  return out;
}

function instance(x, at) {
  const slots = x.slots > 0 && x.slots <= 32
    ? el("span.slots", {role: "img", "aria-label": `${x.slots_used} of ${x.slots} slots in use`}, ...Array.from({length: x.slots}, (_, i) => el(i < x.slots_used ? "i.used" : "i")))
    : x.slots > 32 ? `${x.slots_used}/${x.slots} slots` : null;
  const why = x.state === "running" ? ACTIVITIES[x.waiting] || x.waiting : x.waiting ? `${x.state}: ${x.waiting}` : x.state;
  return el("div.instance", {},
    el("div.row", {}, el("b", {}, x.instance), slots),
    el("div.row", {}, el("span", {}, figure(`stages.${at}.batches`, x.batches, int(x.batches)), " batches"),
      x.instance === "batch" ? null : el("span", {}, "idle ", figure(`stages.${at}.idle`, x.idle, percent(x.idle)))),
    el("div.why", {}, why || ""));
}

function edge(e, rate) {
  const pipe = el(rate > 0 ? "div.pipe.moving" : "div.pipe", {"aria-hidden": "true", style: {"--pace": `${Math.min(4, Math.max(0.3, 2 / (rate || 1))).toFixed(2)}s`}});
  const i = STAGES.indexOf(e.to) - 1;
  return el("div.edge", {}, el("code", {}, e.subject), pipe,
    el("span", {}, el("b", {}, figure(`edges.${i}.waiting`, e.waiting, e.waiting < 0 ? "–" : int(e.waiting))), " waiting"),
    el("span", {}, figure(`edges.${i}.open`, e.open, e.open < 0 ? "–" : int(e.open)), " open"));
}

function timelines(s) {
  put("legend", ...Object.entries(ACTIVITIES).map(([a, name]) => el("li", {}, el("i", {style: {background: `var(--${a.replace(" ", "-")})`}}), name)));
  const most = s.timeline.processes.reduce((n, p) => Math.max(n, ...Object.values(p.shares).map((x) => x.length)), 0);
  const cells = s.ended ? most : most < 60 ? 60 : Math.max(120, most);
  const lanes = s.timeline.processes.map((p) => {
    const sums = Object.entries(p.shares).map(([a, xs]) => [a, xs.reduce((t, x) => t + x, 0)]);
    const total = sums.reduce((t, [, x]) => t + x, 0) || 1;
    const causes = sums.filter(([a]) => !WORK.includes(a)).map(([a, x]) => [a, x / total]).filter(([, x]) => x >= 0.005).sort((a, b) => b[1] - a[1]);
    const busy = 1 - causes.reduce((t, [, x]) => t + x, 0);
    const text = `busy ${percent(Math.max(0, busy))}` + causes.map(([a, x]) => `, ${a} ${percent(x)}`).join("");
    return el("div.lane", {}, el("b", {}, p.process),
      stack(p.shares, cells, Object.keys(ACTIVITIES), `${p.process}, last ${duration(most * s.timeline.cell)}: ${text}`), el("span.why", {}, text));
  });
  put("timelines", ...(lanes.length ? [...lanes, note(`One column is ${duration(s.timeline.cell)}; the newest is at the right.`)] : [note("No process has reported yet.")]));
}

function loss(s) {
  const {windows, loss} = s.curves;
  put("loss", windows.length > 1
    ? curve(windows, loss, {wide: room("loss"), smooth: true, label: `Loss ${fixed(loss[0], 3)} at step ${int(windows[0])}, ${fixed(loss[loss.length - 1], 3)} at step ${int(windows[windows.length - 1])}`})
    : note("No curve before the second step."));
}

function acceptance(s) {
  const xs = s.curves.evals.map((e) => e.window), ys = s.curves.evals.map((e) => e.accept_length);
  if (xs.length < 2) {
    put("accept", note(xs.length ? `${fixed(ys[0], 3)} tokens a round at step ${int(xs[0])}.` : "No evaluation yet: see eval.every in the configuration."));
    return;
  }
  put("accept", curve(xs, ys, {wide: room("accept"), label: `Accepted tokens a round: ${xs.map((x, i) => `${fixed(ys[i], 3)} at step ${int(x)}`).join(", ")}`, dots: true}));
}

function positions(s) {
  const {accepted, hits, evals} = s.curves, last = evals.length ? evals[evals.length - 1] : null;
  if (!accepted.length) return put("positions", note("No step yet."));
  const words = (list) => list.map((x, i) => `position ${i + 1} ${percent(x)}`).join(", ");
  const marks = last ? last.per_position : [];
  put("positions",
    columns({solid: accepted, faint: hits, marks, wide: room("positions"), label: `Right up to here in the latest steps: ${words(accepted)}. Right at this position alone: ${words(hits)}.` +
      (marks.length ? ` Accepted at the evaluation at step ${int(last.window)}: ${words(marks)}.` : "")}),
    el("ul.legend.below", {"aria-hidden": "true"}, el("li", {}, el("i.dot"), "right up to here, latest steps"), el("li", {}, el("i.dot.behind"), "right at this position alone"),
      marks.length ? el("li", {}, el("i.mark"), `accepted at the evaluation at step ${int(last.window)}`) : null));
}

function buckets(s) {
  const rows = s.buckets.map((b, i) => {
    const open = Math.max(0, b.open), share = Math.min(1, open / (b.credit || 1));
    return el("tr", {}, el("th", {scope: "row"}, b.bucket),
      el("td", {}, el("span.bar", {"aria-hidden": "true"}, el(share >= 1 ? "i.full" : "i", {style: {width: `${100 * share}%`}})),
        figure(`buckets.${i}.open`, b.open, b.open < 0 ? "–" : int(b.open)), " of ", figure(`buckets.${i}.credit`, b.credit, int(b.credit))),
      el("td", {}, figure(`buckets.${i}.stock`, b.stock, b.stock < 0 ? "–" : int(b.stock))),
      el("td", {}, `${b.floor} to ${b.ceiling}`),
      el("td", {}, figure(`buckets.${i}.remaining`, b.remaining, int(b.remaining))));
  });
  $("buckets").tBodies[0].replaceChildren(...(rows.length ? rows : [el("tr", {}, el("td", {colspan: 5}, "No plan yet."))]));
}

function mix(s) {
  const trained = s.mix.reduce((t, m) => t + m.batches, 0), planned = s.mix.reduce((t, m) => t + m.planned, 0);
  const most = Math.max(0.01, ...s.mix.flatMap((m) => [m.batches / (trained || 1), m.planned / (planned || 1)]));
  const rows = s.mix.map((m, i) => {
    const is = m.batches / (trained || 1), plan = m.planned / (planned || 1);
    return el("div.pair", {}, el("b", {}, m.bucket),
      el("div.bars", {"aria-hidden": "true"}, el("i", {style: {width: `${(100 * is) / most}%`}}), el("i.plan", {style: {width: `${(100 * plan) / most}%`}})),
      el("span.num", {}, percent(is), " of ", percent(plan), el("br"), figure(`mix.${i}.batches`, m.batches, `${int(m.batches)}`), " batches"));
  });
  put("mix", ...(rows.length ? [...rows, note("Share of the batches trained, above the share planned.")] : [note("No plan yet.")]));
}

function ledger(s) {
  const l = s.ledger;
  pairs("ledger", [["generation", "generation"], ["windows committed", "committed"], ["batches claimed", "claimed"], ["batches added", "added"],
    ["documents", "documents"], ["suspect", "suspect"], ["rejected", "dead"]].map(([name, key]) => [name, figure(`ledger.${key}`, l[key], int(l[key]))]));
}

function waterfall(t, i) {
  const t0 = t.spans[0].start, scale = 100 / (t.seconds * 1e9 || 1);
  return el("figure.fall", {},
    el("figcaption", {}, el("b", {}, `batch ${t.batch}`), ` of window ${t.window}, ${t.bucket}, ${int(t.tokens)} tokens: `, figure(`slowest.${i}.seconds`, t.seconds, seconds(t.seconds))),
    ...t.spans.filter((x) => x.end > x.start).map((x) => {
      const kind = x.error ? "error" : KINDS[x.name] || "queue", long = (x.end - x.start) / 1e9;
      return el("div.line", {}, el("span", {title: x.error || `${x.name}, ${x.process}`}, `${x.name} · ${x.process}`),
        el("div.track", {"aria-hidden": "true"}, el("i", {"data-kind": kind, style: {left: `${(x.start - t0) * scale}%`, width: `${(x.end - x.start) * scale}%`}})),
        el("span.num", {}, seconds(long)));
    }));
}

function clock(at) { return new Date(at * 1000).toLocaleTimeString("en-GB"); }

function problem(p) {
  return el("li", {}, el("time", {datetime: new Date(p.at * 1000).toISOString()}, clock(p.at)), el("b", {}, p.who), el("span", {}, p.text));
}

let paused = false, lost = false, latest = null;
function controls() {
  const dark = () => document.documentElement.dataset.theme === "dark" ||
    (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = $("theme"), label = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; label(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
  const pause = $("pause");
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
  });
}

function start() {
  controls();
  addEventListener("resize", () => { if (latest) render(latest); });
  const stored = $("state");
  if (stored) { // a report
    $("pause").remove();
    latest = JSON.parse(stored.textContent);
    render(latest);
    return;
  }
  const events = new EventSource("api/events");
  events.onmessage = (m) => {
    const s = JSON.parse(m.data);
    if (!s.health) return; // before the first state
    if (s.ended) {
      events.close();
      $("pause").remove();
    }
    lost = false;
    if (!paused || s.ended || !latest) {
      latest = s;
      render(s);
    } else life(latest);
  };
  events.onerror = () => { // the browser goes on to try
    lost = true;
    if (latest) life(latest);
    else health("bad", "The run does not answer.");
  };
}

start();
