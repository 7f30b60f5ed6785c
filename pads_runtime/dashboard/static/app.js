// The page of a running talk. It only listens: one stream of events comes in, nothing goes out.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const DRAW_EVERY_MS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 100;
const NARROW_PX = 640;
const AHEAD_S = 3; // what still lasts is drawn a little further than it is known, and cut off at the edge

const $ = (id) => document.getElementById(id);
const RANGES = [...document.querySelectorAll("input[name=range]")];

const state = { talk: null, at: 0, width: 0, range: 30, drawn: null };

// ---------------------------------------------------------------- small pieces

function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

function shape(name, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}

function titled(node, title) {
  if (title) node.append(shape("title", {}, title));
  return node;
}

function time(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

const ms = (value) => (value === null || value === undefined ? "–" : `${Math.round(value)} ms`);

function now() {
  const talk = state.talk;
  if (!talk) return 0;
  return talk.ticks ? talk.now_s + (performance.now() - state.at) / 1000 : talk.now_s;
}

// ---------------------------------------------------------------- the talk in words

function line(who, ...parts) {
  const name = { user: "you", agent: "PADS" }[who] || "";
  return el("div", { class: `line ${who}` }, el("b", {}, name), el("span", {}, ...parts));
}

function showCurrent(seen) {
  const rows = [];
  if (seen.stable || seen.unstable) {
    rows.push(line("user", seen.stable, seen.stable && seen.unstable ? " " : "",
      seen.unstable ? el("span", { class: "unstable" }, seen.unstable) : ""));
  }
  const reply = seen.reply;
  if (reply) {
    const parts = [reply.said];
    const label = reply.committed ? "to come" : "prepared, not said";
    if (reply.waiting || !reply.said) {
      parts.push(reply.said ? " " : "", el("span", { class: "tag no" }, label),
        el("span", { class: "unsaid" }, reply.waiting || "…"));
    }
    rows.push(line("agent", ...parts));
  }
  if (!rows.length) rows.push(el("p", { class: "dim" }, seen.gate === "idle" ? "Nobody is speaking." : ""));
  $("current").replaceChildren(...rows);
}

function showSaid(said) {
  let turn = null;
  const items = said.map(([number, who, text, note]) => {
    const first = turn !== null && number !== turn;
    turn = number;
    return el("li", { class: first ? "turn" : null }, line(who, text, note ? el("span", { class: "tag" }, `  (${note})`) : ""));
  });
  if (!items.length) items.push(el("li", { class: "dim" }, "Nothing was said yet."));
  $("said").replaceChildren(...items);
}

function tile(name, value, note = "") {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value, note ? el("small", {}, note) : ""));
}

function showLast(seen) {
  const last = seen.last, counts = seen.counts;
  const how = last ? (last.prepared ? "prepared in the pause" : "made after the turn") : "";
  const tiles = [
    tile("Wait for the model", last ? ms(last.post_confirm_ttft_ms) : "–", last ? `turn ${last.turn}, ${how}` : "no answer yet"),
    tile("Silence before it", last ? ms(last.dead_air_ms) : "–", "from your last sound to the first of PADS"),
    tile("Prepared replies", `${counts.committed} of ${counts.prepared}`, "were used"),
    tile("In vain", String(counts.wasted_tokens), `tokens of ${counts.discarded} thrown away`),
  ];
  $("last").replaceChildren(...tiles);
}

function showTalk(talk) {
  state.talk = talk;
  state.at = performance.now();
  const badge = $("badge");
  if (!talk) {
    badge.className = "badge";
    badge.textContent = "no talk";
    $("run").textContent = "No talk has been held here yet; start one with: pads talk";
    state.drawn = null;
    draw();
    return;
  }
  const seen = talk.seen;
  badge.className = talk.live ? "badge live" : "badge";
  const words = talk.live ? "live" : talk.state === "finished" ? "ended" : talk.state;
  if (badge.textContent !== words) badge.textContent = words;
  $("run").textContent = `${talk.purpose}  ·  ${talk.run}`;
  const speaker = talk.live ? seen.speaker : "the last talk, as it ended";
  if ($("speaker").textContent !== speaker) $("speaker").textContent = speaker;
  const playing = seen.reply && seen.reply.playing;
  const who = !talk.live ? "" : playing ? "agent" : seen.speaking ? "user" : seen.state === "paused" ? "wait" : "";
  $("dot").className = `dot ${who}`;
  $("muted").hidden = !seen.muted;
  showCurrent(seen);
  showSaid(seen.said);
  showLast(seen);
  state.drawn = null;
  draw();
}

// ---------------------------------------------------------------- the timeline

const LANES = [
  { key: "user", name: "You", hint: "", height: 26 },
  { key: "p_end", name: "Turn ends", hint: "p_end", height: 58 },
  { key: "p_deep", name: "A question", hint: "p_deep", height: 58 },
  { key: "states", name: "Gate", hint: "", height: 26 },
  { key: "replies", name: "Reply", hint: "", height: 26 },
  { key: "agent", name: "PADS", hint: "", height: 26 },
];
const STATE_WORDS = { idle: "idle", listening: "listening", paused: "paused", responding: "answering" };
const REPLY_WORDS = { prepared: "preparing", committed: "prepared, used", plain: "made after the turn",
  discarded: "thrown away", withdrawn: "withdrawn", failed: "failed" };

function layout(width) {
  const narrow = width < NARROW_PX;
  const left = narrow ? 4 : 112;
  let y = 4;
  const lanes = LANES.map((lane) => {
    if (narrow) y += 16; // its name stands above it
    const placed = { ...lane, y };
    y += lane.height + (narrow ? 5 : 9);
    return placed;
  });
  const right = width - 10;
  return { narrow, left, right, lanes, bottom: y, height: y + 22, scale: (right - left) / state.range };
}

function frame(plan) {
  const svg = shape("svg", { viewBox: `0 0 ${state.width} ${plan.height}`, height: plan.height, role: "img" });
  svg.setAttribute("aria-label", "Timeline: your voice, the probabilities, the gate, replies, and PADS's voice");
  const defs = shape("defs");
  const hatch = shape("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  hatch.append(shape("rect", { width: 6, height: 6, class: "hatch-ground" }), shape("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatch-line" }));
  const clip = shape("clipPath", { id: "window" });
  clip.append(shape("rect", { x: plan.left, y: 0, width: plan.right - plan.left, height: plan.height }));
  defs.append(hatch, clip);
  svg.append(defs);
  for (const lane of plan.lanes) {
    const y = plan.narrow ? lane.y - 5 : lane.y + (lane.hint ? lane.height / 2 - 3 : lane.height / 2 + 4);
    const name = shape("text", { x: plan.narrow ? plan.left : 0, y, class: "lane" }, lane.name);
    svg.append(name);
    if (lane.hint) {
      const at = plan.narrow ? { x: plan.left + 84, y } : { x: 0, y: y + 15 };
      svg.append(shape("text", { ...at, class: "hint" }, lane.hint));
    }
    svg.append(shape("line", { x1: plan.left, x2: plan.right, y1: lane.y + lane.height, y2: lane.y + lane.height, class: "base" }));
  }
  const still = shape("g", { "clip-path": "url(#window)" });
  const moving = shape("g");
  still.append(moving);
  svg.append(still, shape("line", { x1: plan.right, x2: plan.right, y1: 0, y2: plan.bottom, class: "edge" }));
  return { svg, moving };
}

function bar(lane, x1, x2, class_, title, inset = 3) {
  const rect = shape("rect", { x: x1, y: lane.y + inset, width: Math.max(2, x2 - x1), height: lane.height - 2 * inset, rx: 3, class: class_ });
  return titled(rect, title);
}

function inside(lane, x1, x2, text, class_) {
  if (x2 - x1 < text.length * 6.4 + 8) return [];
  return [shape("text", { x: x1 + 6, y: lane.y + lane.height / 2 + 4, class: class_ }, text)];
}

function drawTracks(plan, moving, talk, base) {
  const x = (t) => plan.right + (t - base) * plan.scale;
  const end = (stretch) => (stretch[1] === null ? base + (talk.live ? AHEAD_S : 0) : stretch[1]);
  const from = base - state.range - 1;
  const lane = Object.fromEntries(plan.lanes.map((one) => [one.key, one]));
  const recent = (track) => talk.tracks[track].filter((item) => end(item) >= from);

  const step = state.range <= 30 ? 5 : state.range <= 60 ? 10 : 20;
  for (let t = Math.ceil(from / step) * step; t <= base + AHEAD_S; t += step) {
    if (t < 0) continue;
    moving.append(shape("line", { x1: x(t), x2: x(t), y1: 0, y2: plan.bottom, class: "grid" }));
    moving.append(shape("text", { x: x(t) + 4, y: plan.bottom + 15, class: "tick" }, time(t)));
  }
  for (const item of recent("states")) {
    const [x1, x2] = [x(item[0]), x(end(item))];
    const visible = Math.min(x2, plan.right);
    moving.append(bar(lane.states, x1, x2, item[2], STATE_WORDS[item[2]]));
    moving.append(...inside(lane.states, Math.max(x1, plan.left), visible, STATE_WORDS[item[2]] || "", "inside"));
  }
  for (const item of recent("user")) {
    const title = item[2] === "ignored" ? `ignored: ${item[3]}` : "you speak";
    moving.append(bar(lane.user, x(item[0]), x(end(item)), `user ${item[2]}`, title));
  }
  for (const item of recent("agent")) moving.append(bar(lane.agent, x(item[0]), x(end(item)), "agent", "PADS is heard"));
  for (const item of recent("replies")) {
    const [x1, x2] = [x(item[0]), x(end(item))];
    const words = REPLY_WORDS[item[2]] || item[2];
    moving.append(bar(lane.replies, x1, x2, item[2], item[3] ? `${words}: ${item[3]}` : words));
    const dark = item[2] === "committed" || item[2] === "plain";
    if (dark || item[2] === "prepared") moving.append(...inside(lane.replies, x1, Math.min(x2, plan.right), words, dark ? "on" : "inside"));
  }
  for (const [key, theta] of [["p_end", talk.theta[0]], ["p_deep", talk.theta[1]]]) {
    const { y, height } = lane[key];
    const at = (p) => y + 6 + (1 - p) * (height - 12);
    moving.append(shape("line", { x1: x(from), x2: x(base + AHEAD_S), y1: at(theta), y2: at(theta), class: "theta" }));
    for (const [t, p] of talk.tracks[key]) {
      if (t < from) continue;
      moving.append(shape("line", { x1: x(t), x2: x(t), y1: y + height, y2: at(p), class: "stem" }));
      const dot = shape("circle", { cx: x(t), cy: at(p), r: 3.5, class: p >= theta ? "over" : "under" });
      moving.append(titled(dot, `${key} ${p.toFixed(2)} at ${t.toFixed(2)} s`));
    }
  }
  for (const item of recent("marks")) {
    moving.append(titled(shape("line", { x1: x(item[0]), x2: x(item[0]), y1: 0, y2: plan.bottom, class: "moment" }), item[2]));
  }
}

function draw() {
  const talk = state.talk, place = $("timeline");
  if (!state.width || document.hidden) return;
  if (!talk) {
    place.replaceChildren(el("p", { class: "dim" }, "A talk will be drawn here as it happens."));
    return;
  }
  const t = now();
  if (!state.drawn || t - state.drawn.base > AHEAD_S - 0.5) {
    const plan = layout(state.width);
    const { svg, moving } = frame(plan);
    drawTracks(plan, moving, talk, t);
    place.replaceChildren(svg);
    state.drawn = { plan, moving, base: t };
  }
  const shift = (t - state.drawn.base) * state.drawn.plan.scale;
  state.drawn.moving.setAttribute("transform", `translate(${-shift.toFixed(2)} 0)`);
  $("clock").textContent = `turn ${talk.seen.turn}  ·  ${time(t)}`;
}

// ---------------------------------------------------------------- machine and runs

function showVitals(vitals) {
  const gb = (mb) => (mb / 1000).toFixed(1);
  const talk = vitals.talk;
  $("machine").replaceChildren(
    tile("Processor", vitals.cpu_percent === null ? "–" : `${Math.round(vitals.cpu_percent)} %`, `of ${vitals.cores} cores`),
    tile("Memory", `${gb(vitals.memory_used_mb)} GB`, `of ${gb(vitals.memory_total_mb)} GB in use`),
    tile("Temperature", vitals.temperature_c === null ? "–" : `${vitals.temperature_c} °C`, vitals.temperature_note),
    tile("This talk", talk ? `${Math.round(talk.memory_mb)} MB` : "–",
      talk ? `${Math.round(talk.cpu_percent)} % of one core` : "no talk is running"),
  );
}

function showRuns(runs) {
  const rows = runs.map((run) => {
    const began = new Date(run.began_utc);
    const known = !Number.isNaN(began.getTime());
    const local = known ? began.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : run.began_utc || "–";
    const figures = run.figures.map(([name, value]) => el("li", { class: "figure" }, el("span", {}, name), el("b", {}, value)));
    const link = run.timeline
      ? el("a", { href: `/runs/${encodeURIComponent(run.name)}/timeline.html`, target: "_blank", rel: "noopener", "aria-label": `timeline of ${run.name}` }, "timeline")
      : el("span", { class: "dim none" }, "none");
    return el("tr", {},
      el("td", {}, known ? el("time", { datetime: run.began_utc, title: run.began_utc }, local) : local),
      el("td", {}, el("div", { class: "what" }, run.kind || run.name), el("div", { class: "dim" }, run.purpose)),
      el("td", { class: `state ${run.state.split(" ")[0]}`, title: run.error || null }, run.state),
      el("td", {}, figures.length ? el("ul", {}, ...figures) : el("span", { class: "dim none" }, "–")),
      el("td", {}, link));
  });
  if (!rows.length) rows.push(el("tr", {}, el("td", { colspan: 5, class: "dim" }, "none yet")));
  $("runs").replaceChildren(...rows);
}

// ---------------------------------------------------------------- the stream

function listen() {
  const stream = new EventSource("/events");
  const on = (kind, show) => stream.addEventListener(kind, (event) => show(JSON.parse(event.data)));
  on("talk", showTalk);
  on("vitals", showVitals);
  on("runs", showRuns);
  stream.onerror = () => {
    if (state.talk) state.talk.ticks = false; // what is not known does not move on
    const badge = $("badge");
    badge.className = "badge lost";
    badge.textContent = "connection lost";
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
}

new ResizeObserver((entries) => {
  const width = Math.floor(entries[0].contentRect.width);
  if (width !== state.width) {
    state.width = width;
    state.drawn = null;
    draw();
  }
}).observe($("timeline"));
if (innerWidth < NARROW_PX) {
  state.range = 15;
  RANGES.forEach((input) => { input.checked = input.value === "15"; });
}
for (const input of RANGES) {
  input.addEventListener("change", () => {
    state.range = Number(input.value);
    state.drawn = null;
    draw();
  });
}
document.addEventListener("visibilitychange", draw);
setInterval(draw, DRAW_EVERY_MS);
listen();
