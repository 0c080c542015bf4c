"use strict";
// Everything that comes from the data becomes text nodes: nothing here parses it as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const ROW = 66; // pixels, as in the style sheet
const SHORT = 1200; // characters of a text that are shown at first
const FEW = 40; // candidates that are shown at first
const STAGES = ["asked", "retrieved", "packed", "in context", "answered"];
const $ = (id) => document.getElementById(id);

const state = {
  budget: Math.floor(data.budgets.length / 2),
  a: 0,
  b: Math.min(1, data.policies.length - 1),
  chosen: -1,
  reversed: false,
  shown: [],
};

// ---- making elements -------------------------------------------------------------------------------------------

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const child of children) if (child !== null && child !== undefined && child !== "") element.append(child);
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function options(select, labels, chosen) {
  select.replaceChildren(
    ...labels.map((label, i) => {
      const option = make("option", "", label);
      option.value = String(i);
      option.selected = i === chosen;
      return option;
    }),
  );
}

// What cannot be seen, or turns the direction of what follows, is named instead.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/u;

function visible(text, into) {
  let rest = text;
  for (let at = rest.search(HIDDEN); at >= 0; at = rest.search(HIDDEN)) {
    const code = rest.codePointAt(at).toString(16).toUpperCase().padStart(4, "0");
    into.append(rest.slice(0, at), make("span", "ctl", `U+${code}`));
    rest = rest.slice(at + 1);
  }
  into.append(rest);
}

// A text, or its pieces of which every second one is an answer. Long ones are cut, where an answer stays in sight.
function words(pieces, all = false) {
  const element = make("div", "words");
  element.dir = "auto";
  const parts = typeof pieces === "string" ? [pieces] : pieces;
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  const cut = !all && total > SHORT * 1.25;
  const first = parts.length > 1 ? parts[0].length : 0;
  const begin = cut && first > SHORT * 0.8 ? first - SHORT / 4 : 0;
  const end = cut ? begin + SHORT : total;
  if (begin) element.append("… ");
  let at = 0;
  parts.forEach((part, i) => {
    const piece = part.slice(Math.max(0, begin - at), Math.max(0, end - at));
    at += part.length;
    if (!piece) return;
    const target = i % 2 ? make("mark", "") : element;
    visible(piece, target);
    if (i % 2) element.append(target);
  });
  if (cut) {
    const more = make("button", "more", `show all ${total.toLocaleString("en")} characters`);
    more.type = "button";
    more.addEventListener("click", () => element.replaceWith(words(pieces, true)));
    element.append(end < total ? "… " : " ", more);
  }
  return element;
}

function plainWords(tag, className, text, limit = 300) {
  const element = make(tag, className);
  element.dir = "auto";
  visible(text.length > limit ? `${text.slice(0, limit)}…` : text, element);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const questionsOf = (n) => `${n.toLocaleString("en")} question${n === 1 ? "" : "s"}`;
const decimals = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const results = (policy) => data.results[policy][state.budget];
const budgetName = (budget) => (budget === null ? "no limit" : budget.toLocaleString("en"));

// ---- headline --------------------------------------------------------------------------------------------------

function showBudget() {
  for (const table of document.querySelectorAll(".at-budget")) table.hidden = Number(table.dataset.budget) !== state.budget;
  for (const row of document.querySelectorAll(".headline tbody tr")) {
    const name = row.cells[0].textContent;
    row.classList.toggle("is-a", name === data.policies[state.a]);
    row.classList.toggle("is-b", name === data.policies[state.b] && state.a !== state.b);
  }
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const value = (row) => Number(row.cells[column].dataset.value);
      const known = (row) => !Number.isNaN(value(row));
      const sign = direction === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows];
      rows.sort((x, y) => known(y) - known(x) || sign * (value(x) - value(y)) || 0);
      table.tBodies[0].append(...rows);
    });
  });
}

// ---- budget curve ----------------------------------------------------------------------------------------------

function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) found.push(Number(t.toFixed(10)));
  return found;
}

function curve(chart, width) {
  const budgets = data.budgets.map((budget, i) => [budget, i]).filter(([budget]) => budget !== null);
  const height = 268;
  const [left, right, top, bottom] = [40, 108, 10, 30];
  const points = chart.points.flat().filter(Boolean);
  let low = Math.min(...points.map((point) => point[1]));
  let high = Math.max(...points.map((point) => point[2]));
  const room = Math.max(0.05 * (high - low), 0.05 - (high - low) / 2); // a flat curve is drawn flat
  [low, high] = [Math.max(0, low - room), Math.min(1, high + room)];
  const [first, last] = [budgets[0][0], budgets[budgets.length - 1][0]];
  const x = (budget) => left + ((width - left - right) * (budget - first)) / (last - first || 1);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
  const title = `${chart.label} by token budget`;
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": title });
  for (const tick of ticks(low, high, 5)) {
    drawing.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
    const label = tick.toFixed(2).replace(/^0\./, ".");
    drawing.append(svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, label));
  }
  let free = -Infinity;
  for (const [budget] of budgets) {
    drawing.append(svg("line", { class: "axis", x1: x(budget), x2: x(budget), y1: height - bottom, y2: height - bottom + 5 }));
    if (x(budget) - free < 34) continue;
    free = x(budget);
    drawing.append(svg("text", { x: x(budget), y: height - bottom + 19, "text-anchor": "middle" }, budgetName(budget)));
  }
  const series = data.policies.map((policy, i) => {
    const known = budgets.map(([budget, at]) => [budget, chart.points[i][at]]).filter(([, point]) => point);
    return { policy, i, known, loud: i === state.a || i === state.b };
  });
  const ends = spread(
    series.filter((s) => s.known.length).map((s) => ({ ...s, y: y(s.known[s.known.length - 1][1][0]) })),
    15, top + 4, height - bottom,
  );
  // Policies A and B last, on top of the others.
  for (const s of ends.sort((p, q) => p.loud - q.loud)) {
    const group = svg("g", { class: `series ${s.loud ? "loud" : "quiet-line"}` });
    const hue = s.i === state.a ? "--a" : s.i === state.b ? "--b" : `--s${2 + (s.i % 6)}`;
    group.style.setProperty("--hue", `var(${hue})`);
    const edge = (k) => s.known.map(([budget, point]) => `${x(budget).toFixed(1)},${y(point[k]).toFixed(1)}`);
    group.append(svg("path", { class: "band", d: `M${edge(2).join("L")}L${edge(1).reverse().join("L")}Z` }));
    group.append(svg("path", { d: `M${edge(0).join("L")}` }));
    for (const [budget, point] of s.known) {
      const note = `${s.policy}, ${budgetName(budget)} tokens: ${point[0].toFixed(3)} [${point[1].toFixed(3)}, ${point[2].toFixed(3)}]`;
      group.append(svg("circle", { cx: x(budget), cy: y(point[0]), r: s.loud ? 3.6 : 2.8 }, svg("title", {}, note)));
    }
    const name = s.policy.length > 16 ? `${s.policy.slice(0, 15)}…` : s.policy;
    group.append(svg("text", { x: x(s.known[s.known.length - 1][0]) + 9, y: s.label + 4 }, name));
    drawing.append(group);
  }
  return drawing;
}

// Labels at least `gap` apart, each as near to its line as that allows.
function spread(series, gap, low, high) {
  const sorted = [...series].sort((p, q) => p.y - q.y);
  sorted.forEach((s, i) => (s.label = Math.max(s.y, i ? sorted[i - 1].label + gap : low)));
  for (let i = sorted.length - 1, limit = high; i >= 0; i -= 1) {
    sorted[i].label = Math.min(sorted[i].label, limit);
    limit = sorted[i].label - gap;
  }
  return sorted;
}

function showCurves() {
  const section = $("curve");
  section.hidden = data.budgets.filter((budget) => budget !== null).length < 2 || !data.curves.length;
  if (section.hidden) return;
  const charts = section.querySelector(".charts");
  if (charts.children.length !== data.curves.length) {
    charts.replaceChildren(...data.curves.map((chart) => make("figure", "", make("figcaption", "", chart.label), "")));
  }
  data.curves.forEach((chart, i) => {
    const figure = charts.children[i];
    figure.querySelector("svg")?.remove();
    figure.append(curve(chart, Math.max(280, figure.clientWidth)));
  });
}

// ---- funnel ----------------------------------------------------------------------------------------------------

function meter(count, total, deep) {
  const element = make("div", "meter");
  const track = make("div", "track");
  const bar = (className, n) => {
    const fill = make("div", className);
    fill.style.setProperty("--w", `${(100 * n) / total}%`);
    track.append(fill);
  };
  bar(deep === undefined ? "fill" : "fill soft", count);
  if (deep !== undefined) bar("deep", deep);
  const value = make("span", "value", `${((100 * count) / total).toFixed(0)} %`);
  element.title = deep === undefined ? `${count} of ${total}` : `${count} of ${total}; every gold document: ${deep}`;
  element.append(track, value);
  return element;
}

function showFunnel() {
  const known = (policy) => results(policy)?.stage.some((stage) => stage !== null);
  const section = $("funnel");
  const pair = [...new Set([state.a, state.b])].filter(known);
  section.hidden = !pair.length;
  if (section.hidden) return;
  const stages = STAGES.slice(1, data.answered ? 5 : 4);
  const table = make("table", "funnel");
  const head = make("tr", "");
  for (const name of ["Bucket", "Policy", ...stages]) {
    const cell = make("th", stages.includes(name) ? "stage" : "", name[0].toUpperCase() + name.slice(1));
    cell.scope = "col";
    head.append(cell);
  }
  table.append(make("thead", "", head));
  const named = data.buckets.map((bucket, i) => [bucket || "not named", i]);
  const groups = named.length > 1 ? [["All questions", null], ...named] : [["All questions", null]];
  for (const [bucket, number] of groups) {
    const body = make("tbody", "");
    const inside = (i) => number === null || data.questions.bucket[i] === number;
    pair.forEach((policy, at) => {
      const { stage, all_gold_in_context: whole } = results(policy);
      const asked = stage.map((s, i) => i).filter((i) => stage[i] !== null && inside(i));
      if (!asked.length) return;
      const row = make("tr", policy === state.a ? "is-a" : "is-b");
      if (at === 0) {
        const cell = make("th", "bucket", bucket, make("small", "", questionsOf(asked.length)));
        cell.scope = "rowgroup";
        cell.rowSpan = pair.length;
        row.append(cell);
      }
      row.append(make("td", "who", data.policies[policy]));
      for (let s = 1; s <= stages.length; s += 1) {
        const reached = asked.filter((i) => stage[i] >= s);
        const deep = s === 2 && whole ? reached.filter((i) => whole[i] === 1).length : undefined;
        row.append(make("td", "stage", meter(reached.length, asked.length, deep)));
      }
      body.append(row);
    });
    if (body.rows.length) table.append(body);
  }
  section.querySelector(".scroll").replaceChildren(table);
}

// ---- list of questions -----------------------------------------------------------------------------------------

const value = (policy, name, i) => results(policy)?.[name]?.[i] ?? null;

// Whether the evidence is in the context: the answer or, where it can stand in no text, all gold documents.
function survived(policy, i) {
  const stands = value(policy, "answer_in_context", i);
  return stands === null ? value(policy, "all_gold_in_context", i) : stands;
}

const OUTCOMES = [
  ["every question", () => true],
  ["A and B differ", (i) => survived(state.a, i) !== survived(state.b, i)],
  ["only A keeps the answer", (i) => survived(state.a, i) === 1 && survived(state.b, i) === 0],
  ["only B keeps the answer", (i) => survived(state.b, i) === 1 && survived(state.a, i) === 0],
  ["both keep it", (i) => survived(state.a, i) === 1 && survived(state.b, i) === 1],
  ["neither keeps it", (i) => survived(state.a, i) === 0 && survived(state.b, i) === 0],
  ["not all gold retrieved", (i) => value(state.a, "stage", i) === 0],
  ["lost by A though retrieved", (i) => value(state.a, "stage", i) >= 1 && survived(state.a, i) === 0],
];
if (data.answered) {
  OUTCOMES.push(["in A's context, answered wrong", (i) => survived(state.a, i) === 1 && value(state.a, "em", i) === 0]);
  OUTCOMES.push(["A right, B wrong", (i) => value(state.a, "em", i) === 1 && value(state.b, "em", i) === 0]);
  OUTCOMES.push(["B right, A wrong", (i) => value(state.b, "em", i) === 1 && value(state.a, "em", i) === 0]);
}

const less = (name) => (i) => {
  const [a, b] = [value(state.a, name, i), value(state.b, name, i)];
  return a === null || b === null ? null : a - b;
};
const ORDERS = [
  ["place in the file", (i) => i],
  ["words of the question", (i) => name(i).toLowerCase()],
  ["gold documents, A less B", less("gold_doc_coverage")],
  ["gold documents of A", (i) => value(state.a, "gold_doc_coverage", i)],
  ["tokens of A", (i) => value(state.a, "tokens", i)],
];
if (data.answered) ORDERS.push(["answer F1, A less B", less("f1")], ["answer F1 of A", (i) => value(state.a, "f1", i)]);

const name = (i) => data.questions.query[i] ?? data.questions.id[i];

function refresh() {
  const asked = $("search").value.trim().toLowerCase();
  const bucket = Number($("bucket").value) - 1;
  const keeps = OUTCOMES[Number($("outcome").value)][1];
  const key = ORDERS[Number($("sort").value)][1];
  const found = [];
  for (let i = 0; i < data.questions.id.length; i += 1) {
    if (bucket >= 0 && data.questions.bucket[i] !== bucket) continue;
    if (asked && !name(i).toLowerCase().includes(asked) && !data.questions.id[i].toLowerCase().includes(asked)) continue;
    if (keeps(i)) found.push([key(i), i]);
  }
  const sign = state.reversed ? -1 : 1;
  found.sort(([p, i], [q, j]) => {
    if (p === q) return i - j;
    if (p === null || q === null) return p === null ? 1 : -1; // what is not known last, in both directions
    return sign * (p < q ? -1 : 1);
  });
  state.shown = found.map(([, i]) => i);
  const [shown, all] = [state.shown.length, data.questions.id.length];
  $("count").textContent = shown === all ? questionsOf(all) : `${shown.toLocaleString("en")} of ${questionsOf(all)}`;
  drawList();
}

function sign(policy, i) {
  const kept = survived(policy, i);
  const [text, className, label] =
    kept === null ? ["–", "no", "not known"] : kept === 1 ? ["●", "yes", "kept"] : ["○", "no", "lost"];
  const element = make("span", `sign ${className} ${policy === state.a ? "who-a" : "who-b"}`, text);
  element.title = `${data.policies[policy]}: ${label}`;
  return element;
}

function drawList() {
  const list = $("list");
  const spacer = list.firstElementChild;
  spacer.style.height = `${state.shown.length * ROW}px`;
  const from = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const to = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
  const rows = [];
  for (let at = from; at < to; at += 1) {
    const i = state.shown[at];
    const query = plainWords("div", "query", name(i));
    const sub = [data.buckets[data.questions.bucket[i]], data.questions.query[i] === null ? "" : data.questions.id[i]];
    const text = make("div", "text", query, plainWords("div", "sub", sub.filter(Boolean).join(" · "), 80));
    const row = make("div", "row", text, sign(state.a, i), sign(state.b, i));
    row.id = `q${i}`;
    row.style.top = `${at * ROW}px`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(i === state.chosen));
    row.setAttribute("aria-posinset", String(at + 1));
    row.setAttribute("aria-setsize", String(state.shown.length));
    row.addEventListener("click", () => choose(i));
    rows.push(row);
  }
  if (!state.shown.length) rows.push(make("div", "empty", "No question is left by these filters."));
  spacer.replaceChildren(...rows);
  if (state.chosen >= 0 && $(`q${state.chosen}`)) list.setAttribute("aria-activedescendant", `q${state.chosen}`);
  else list.removeAttribute("aria-activedescendant");
}

function choose(i) {
  state.chosen = i;
  const list = $("list");
  const at = state.shown.indexOf(i);
  if (at >= 0) {
    if (at * ROW < list.scrollTop) list.scrollTop = at * ROW;
    if ((at + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (at + 1) * ROW - list.clientHeight;
  }
  drawList();
  showDetail();
}

function step(by) {
  if (!state.shown.length) return;
  const at = state.shown.indexOf(state.chosen);
  const next = at < 0 ? (by > 0 ? 0 : state.shown.length - 1) : at + by;
  choose(state.shown[Math.min(state.shown.length - 1, Math.max(0, next))]);
}

// ---- one question ----------------------------------------------------------------------------------------------

// The page is usable before the browser has read all of it; the question that is looked at may still be to come.
const details = new Map();
function detailOf(i) {
  const element = $(`d${i}`);
  if (!element || (document.readyState === "loading" && !element.nextElementSibling)) return null;
  if (!details.has(i)) details.set(i, JSON.parse(element.textContent));
  return details.get(i);
}

function reasonOf(code, detail, pool) {
  if (code >= 0) return data.reasons[code][1];
  const [passage, start] = detail.pools[pool][-1 - code];
  return `the same text as in ${nameOf(detail, passage)}, at ${start}`;
}

const nameOf = (detail, passage) => String(detail.sources[passage][1] ?? detail.sources[passage][0]);

function verdict(policy, i) {
  const stage = value(policy, "stage", i);
  const stands = value(policy, "answer_in_context", i);
  const em = value(policy, "em", i);
  const parts = [];
  if (em === 1) parts.push(survived(policy, i) === 0 ? "answered right, without the evidence" : "answered right");
  else if (survived(policy, i) === 1) parts.push(em === null ? "evidence in context" : "in context, answered wrong");
  else if (stage === 0) parts.push("not all gold retrieved");
  else if (stage !== null) parts.push("lost in packing");
  if (stands === null && survived(policy, i) !== null) parts.push("the answer stands in no text; judged by gold documents");
  const coverage = value(policy, "gold_doc_coverage", i);
  if (coverage !== null) parts.push(`gold documents ${percent(coverage).replace(".0 %", " %")}`);
  if (value(policy, "f1", i) !== null) parts.push(`F1 ${decimals(value(policy, "f1", i), 2)}`);
  return parts;
}

function tokensBar(cost, budget) {
  const element = make("div", "tokens");
  const fill = make("div", "fill");
  fill.style.setProperty("--w", `${budget ? Math.min(100, (100 * cost) / budget) : 100}%`);
  element.append(make("div", "track", fill), budget === null ? `${cost} tokens` : `${cost} of ${budget} tokens`);
  return element;
}

function candidate(detail, pick, k) {
  const [passage, start, end, relevance, text] = detail.pools[pick.pool][k];
  const [id, title, , score, gold] = detail.sources[passage];
  const packed = pick.reasons[k] === 0;
  const item = make("li", packed ? "packed" : "");
  const heading = plainWords("span", "title", String(title ?? id), 120);
  if (gold) heading.append(make("span", "gold", "gold"));
  item.append(make("div", "head", heading, make("span", "fate", reasonOf(pick.reasons[k], detail, pick.pool))));
  if (text !== null) item.append(words(detail.texts[text]));
  const numbers = [`relevance ${relevance}`];
  if (pick.gains[k] !== null) numbers.push(`gain ${String(pick.gains[k]).replace("-", "−")}`);
  numbers.push(`${pick.costs[k]} tokens`, `characters ${start}–${end}`);
  if (score !== null) numbers.push(`given score ${score}`);
  item.append(make("div", "numbers", numbers.join(" · ")));
  return item;
}

function candidates(detail, pick) {
  const list = make("ol", "candidates");
  const place = new Map(pick.order.map((k, at) => [k, at]));
  const pool = detail.pools[pick.pool];
  const sorted = pool.map((_, k) => k);
  // The packed first, as they stand in the context; then by relevance.
  sorted.sort((p, q) => (place.get(p) ?? Infinity) - (place.get(q) ?? Infinity) || pool[q][3] - pool[p][3] || p - q);
  const show = (count) => {
    list.replaceChildren(...sorted.slice(0, count).map((k) => candidate(detail, pick, k)));
    if (count >= sorted.length) return;
    const more = make("button", "more", `show all ${sorted.length} candidates`);
    more.type = "button";
    more.addEventListener("click", () => show(sorted.length));
    list.append(make("li", "", more));
  };
  show(FEW);
  return list;
}

function side(policy, i, detail) {
  const element = make("section", `side-of ${policy === state.a ? "is-a" : "is-b"}`);
  element.append(make("h4", "", data.policies[policy]));
  const [first, ...rest] = verdict(policy, i);
  if (first) element.append(make("p", "verdict", make("b", "", first), rest.length ? ` · ${rest.join(" · ")}` : ""));
  const pick = detail.picks[`${policy},${state.budget}`];
  if (!pick) {
    const tokens = value(policy, "tokens", i);
    if (tokens !== null) element.append(tokensBar(tokens, data.budgets[state.budget]));
    element.append(make("p", "quiet", results(policy) ? "No trace of this selection." : "Not run at this budget."));
    return element;
  }
  element.append(tokensBar(pick.cost, data.budgets[state.budget]));
  if (pick.gap !== null && pick.gap !== undefined) {
    element.append(make("p", "quiet", `at least ${percent(1 - pick.gap)} of the optimum, by its certificate`));
  }
  if (pick.context !== null) {
    const empty = make("span", "quiet", "an empty context");
    element.append(make("h5", "", "What the reader sees"), make("div", "context", pick.cost ? words(pick.context) : empty));
  }
  const count = `${pick.order.length} of ${pick.reasons.length} packed`;
  element.append(make("h5", "", "Candidates", make("span", "", count)), candidates(detail, pick));
  return element;
}

function showDetail() {
  const i = state.chosen;
  const article = $("detail");
  if (i < 0) {
    article.replaceChildren(make("p", "empty", "Choose a question."));
    return;
  }
  const detail = detailOf(i);
  if (!detail) {
    article.replaceChildren(make("p", "empty", "Still reading the page."));
    return;
  }
  const facts = make("dl", "facts");
  const fact = (term, ...parts) => {
    const shown = parts.map((part) => plainWords("span", "", String(part), 200));
    if (parts.length) facts.append(make("dt", "", term), make("dd", "", ...shown));
  };
  fact("Id", [data.questions.dataset[i], data.questions.id[i]].filter(Boolean).join(" · "));
  if (data.buckets[data.questions.bucket[i]]) fact("Bucket", data.buckets[data.questions.bucket[i]]);
  if (detail.answers) fact(detail.answers.length > 1 ? "Answers" : "Answer", ...detail.answers);
  if (detail.gold?.length && detail.sources) {
    const held = new Set(detail.sources.map(([id]) => id));
    const titles = new Map(detail.sources.map(([id, title]) => [id, title ?? id]));
    fact("Gold", ...detail.gold.map((id) => (held.has(id) ? titles.get(id) : `${id} (not retrieved)`)));
  }
  const pair = make("div", "pair", ...[...new Set([state.a, state.b])].map((policy) => side(policy, i, detail)));
  article.replaceChildren(plainWords("h3", "query", name(i), 2000), facts, pair);
}

// ---- what is shown ---------------------------------------------------------------------------------------------

function showAll() {
  showBudget();
  showCurves();
  showFunnel();
  refresh();
  showDetail();
}

function start() {
  options($("a"), data.policies, state.a);
  options($("b"), data.policies, state.b);
  options($("outcome"), OUTCOMES.map(([label]) => label), 0);
  options($("sort"), ORDERS.map(([label]) => label), 0);
  options($("bucket"), ["every bucket", ...data.buckets.map((bucket) => bucket || "not named")], 0);
  $("bucket").closest("label").hidden = data.buckets.length < 2;
  for (const side of ["a", "b"]) {
    $(side).addEventListener("change", (event) => {
      state[side] = Number(event.target.value);
      showAll();
    });
  }
  for (const radio of document.querySelectorAll("input[name=budget]")) {
    radio.checked = Number(radio.value) === state.budget; // a page that is loaded again keeps the choice of before
    radio.addEventListener("change", () => {
      state.budget = Number(radio.value);
      showAll();
    });
  }
  for (const id of ["outcome", "bucket", "sort"]) $(id).addEventListener("change", refresh);
  $("search").addEventListener("input", refresh);
  $("direction").addEventListener("click", () => {
    state.reversed = !state.reversed;
    $("direction").setAttribute("aria-pressed", String(state.reversed));
    $("direction").textContent = state.reversed ? "↑" : "↓";
    refresh();
  });
  const list = $("list");
  list.style.setProperty("--all", `${data.questions.id.length * ROW + 2}px`);
  list.addEventListener("scroll", drawList, { passive: true });
  const page = () => Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
  const moves = {
    ArrowDown: () => 1, ArrowUp: () => -1, PageDown: page, PageUp: () => -page(), Home: () => -1e9, End: () => 1e9,
  };
  list.addEventListener("keydown", (event) => {
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step(moves[event.key]());
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape" && event.target === $("search")) {
      $("search").value = "";
      refresh();
      list.focus();
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      $("search").focus();
    } else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
  });
  document.querySelectorAll("table.headline").forEach(sortable);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar changes the height alone
    width = window.innerWidth;
    showCurves();
    drawList();
  });
  document.addEventListener("DOMContentLoaded", () => {
    if (!$("detail").querySelector(".side-of")) showDetail();
  });
  showAll();
  if (state.shown.length) choose(state.shown[0]);
}

start();
