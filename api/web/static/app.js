// What moves: the curves of a job, its live figures, and the buttons that copy a snippet.
"use strict";

const REFRESH_MS = 700; // at most this often, however many events come, and a third of the time
const POLL_MS = 2000; // where there is no event stream

let pressed = null;
document.addEventListener("pointerdown", (event) => (pressed = event.target));
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => setTimeout(() => (pressed = null)));

function held(place) {
  // under a press, or with text selected in it: not to be replaced now
  const selection = getSelection();
  return place.contains(pressed) || (selection.type === "Range" && place.contains(selection.anchorNode));
}

document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id !== "live" && held(event.detail.target)) event.detail.shouldSwap = false; // it polls again
});

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function cross(plot, series) {
  // a failed trial: a cross near the upper edge
  const { ctx, bbox } = plot;
  const size = 3.5 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour("--bad");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  plot.data[series].forEach((value, index) => {
    if (value === null) return;
    const x = plot.valToPos(plot.data[0][index], "x", true);
    const y = bbox.top + 2.5 * size;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x - size, y + size);
    ctx.lineTo(x + size, y - size);
  });
  ctx.stroke();
  ctx.restore();
  return null;
}

function around(plot, low, high) {
  // a little room, and not whole powers of ten: times differ by less
  return low === null ? [1, 10] : [low / 1.15, high * 1.3];
}

function ticks(plot, axis, low, high) {
  // 1, 2, 5 times powers of ten; where those are too few, even steps
  const at = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (const digit of [1, 2, 5]) if (digit * power >= low && digit * power <= high) at.push(digit * power);
  if (at.length > 3) return at.length > 12 ? at.filter((each) => Math.abs(Math.log10(each) - Math.round(Math.log10(each))) < 1e-9) : at;
  const rough = (high - low) / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * unit).find((each) => each >= rough);
  const even = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) even.push(value);
  return even;
}

function short(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 3, notation: "compact" });
}

class Curve {
  constructor(place, pointed) {
    this.place = place;
    this.pointed = pointed;
    this.plot = null;
    this.told = null;
    this.beside = null;
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(place);
  }

  size() {
    return { width: this.place.clientWidth, height: this.place.clientHeight };
  }

  show(told, beside) {
    this.told = told;
    this.beside = beside;
    const failed = told.status.map((status) => (status === "ok" ? null : 1));
    const data = [told[this.place.dataset.x], told.time, failed, told.best];
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.options(), data, this.place);
    this.place.dataset.points = data[0].length;
    this.place.dataset.trials = told.trials;
    this.place.dataset.beside = beside ? beside.best.length : 0;
  }

  redraw() {
    if (!this.plot) return;
    this.plot.destroy();
    this.plot = null;
    this.show(this.told, this.beside);
  }

  steps() {
    // the other job's best so far, from its first time on: [x, µs]
    const other = this.beside;
    if (!other) return [];
    return other.best.map((time, index) => [other[this.place.dataset.x][index], time]).filter(([, time]) => time !== null);
  }

  within(low, high, values) {
    // a scale that has room for the other job's line, too
    const known = [low, high, ...values].filter((value) => value !== null && value !== undefined);
    return known.length ? [Math.min(...known), Math.max(...known)] : [low, high];
  }

  drawBeside(plot) {
    const steps = this.steps();
    if (!steps.length) return;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = colour("--dim");
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    let before = null;
    for (const [along, time] of steps) {
      const x = plot.valToPos(along, "x", true);
      const y = plot.valToPos(time, "y", true);
      if (before === null) ctx.moveTo(x, y);
      else {
        ctx.lineTo(x, before);
        ctx.lineTo(x, y);
      }
      before = y;
    }
    ctx.stroke();
    ctx.restore();
  }

  options() {
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    return {
      ...this.size(),
      scales: {
        x: { time: false, range: (plot, low, high) => this.within(low, high, this.steps().map(([along]) => along)) },
        y: { distr: 3, range: (plot, low, high) => around(plot, ...this.within(low, high, this.steps().map(([, time]) => time))) },
        failed: { range: [0, 1] },
      },
      axes: [axis, { ...axis, size: 70, splits: ticks, filter: (plot, at) => at, values: (plot, at) => at.map(short) }],
      legend: { show: false },
      cursor: { points: { size: 9 }, drag: { x: true, y: false } },
      series: [
        {},
        { stroke: colour("--ok"), paths: () => null, points: { show: true, size: 5, fill: colour("--ok") } },
        { scale: "failed", paths: cross, points: { show: false } },
        { stroke: colour("--accent"), width: 2.5, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
      ],
      hooks: { setCursor: [(plot) => this.point(plot.cursor.idx)], draw: [(plot) => this.drawBeside(plot)] },
    };
  }

  point(index) {
    if (index === null || index === undefined) return;
    const told = this.told;
    const time = told.time[index];
    const said = time === null ? told.status[index].replaceAll("_", " ") : `${time.toPrecision(4)} µs`;
    this.pointed.textContent = `trial ${told.number[index]}, after ${told.seconds[index]} s: ${said}; ${told.config[index]}`;
  }
}

function watchJob(section) {
  const pointed = document.getElementById("pointed");
  const curves = [...section.querySelectorAll(".curve")].map((place) => new Curve(place, pointed));
  let timer = null;
  let took = 0;
  let wanted = false;

  const draw = async () => {
    const addresses = [section.dataset.curve, section.dataset.beside].filter(Boolean);
    const answers = await Promise.all(addresses.map((address) => fetch(address)));
    if (!answers.every((answer) => answer.ok)) return;
    const [told, beside = null] = await Promise.all(answers.map((answer) => answer.json()));
    curves.forEach((curve) => curve.show(told, beside));
  };
  const refresh = async () => {
    await draw();
    if (["live", "details"].some((id) => held(document.getElementById(id)))) {
      wanted = true;
      return;
    }
    const scrolled = [...document.querySelectorAll("#details .scroll")].map((each) => [each.id, each.scrollTop, each.scrollLeft]);
    await htmx.ajax("GET", section.dataset.live, { target: "#live", swap: "outerHTML" });
    for (const [id, top, left] of scrolled) document.getElementById(id)?.scrollTo(left, top);
    if (!document.activeElement.matches("#trials :is(input, select)")) htmx.trigger("#trials", "moved");
  };
  const soon = () => {
    timer ??= setTimeout(async () => {
      const start = performance.now();
      try {
        await refresh();
      } catch (error) {
        console.warn("the page could not be refreshed", error); // the next event tries again
      } finally {
        took = performance.now() - start;
        timer = null;
        if (wanted) {
          wanted = false;
          soon();
        }
      }
    }, Math.max(REFRESH_MS, 2 * took));
  };
  const moved = () => {
    if (timer) wanted = true;
    else soon();
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => curves.forEach((curve) => curve.redraw()));
  const live = () => document.getElementById("live");
  if (!("running" in live().dataset)) return;

  const source = new EventSource(`${section.dataset.events}?after=${live().dataset.last}`);
  for (const name of ["trial", "best", "progress"]) source.addEventListener(name, moved);
  source.addEventListener("state", (event) => {
    moved();
    document.getElementById("said").textContent = `The job is ${JSON.parse(event.data).state}.`;
    if (["succeeded", "failed", "cancelled"].includes(JSON.parse(event.data).state)) source.close();
  });
  source.addEventListener("error", () => {
    if (source.readyState !== EventSource.CLOSED) return; // it connects again by itself
    const poll = setInterval(() => ("running" in live().dataset ? moved() : clearInterval(poll)), POLL_MS);
  });
}

function copyButton(button) {
  const text = document.getElementById(button.dataset.copy);
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text); // no clipboard without https: ready for the keyboard
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = label), 2000);
  });
}

document.querySelectorAll("[data-copy]").forEach(copyButton);
document.querySelectorAll("[data-curve]").forEach(watchJob);
