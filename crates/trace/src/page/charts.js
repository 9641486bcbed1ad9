'use strict';
// Curves over time, by uPlot, each with the values under the pointer. Times along are seconds.

const CHARTS = new Set();

const CHART_HELP = 'Values stand below a curve for what is under the pointer. Drag zooms, a double '
  + 'click shows all, a click shows that instant in the schedule.';

// A chart in `host`: `columns` are the values along and those of each series. `pick` is called
// with the index of a point that was clicked.
class Chart {
  constructor(host, given) {
    Object.assign(this, { height: 220 }, given, { host });
    const { title } = given;
    this.box = element('div', { class: 'chart', role: 'img', 'aria-label': title });
    host.append(this.box);
    this.draw();
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.box);
    CHARTS.add(this);
  }
  options() {
    const axis = { stroke: inked('--muted'), grid: { stroke: inked('--rule'), width: 1 } };
    axis.ticks = { stroke: inked('--rule'), width: 1 };
    const said = (value) => (value === null || value === undefined ? '' : this.unit(value));
    const along = this.along || {
      label: 'time', value: (value) => time(value * 1e9, 1e3),
      values: (_, splits) => splits.map((at) => time(at * 1e9, (splits[1] - splits[0]) * 1e9)),
    };
    const series = this.series.map(({ name, color, points, dash, spread, size, width = 1.5 }) => ({
      label: name,
      stroke: color(),
      dash,
      width: points ? 0 : width,
      paths: points === true ? () => null : undefined,
      points: { show: points !== undefined, size: size || 7, width: size ? 2 : 1,
        fill: size ? 'transparent' : color(), stroke: color() },
      value: (_, value, __, i) => said(value) + (spread && spread[i]
        ? ` (${spread[i].map(this.unit).join('..')})` : ''),
      spanGaps: false,
    }));
    return {
      title: this.title,
      width: this.box.clientWidth || 600,
      height: this.height,
      cursor: { drag: { x: true, y: false }, focus: { prox: 24 } },
      scales: { x: { time: false }, y: this.range ? { range: this.range } : {} },
      axes: [
        { ...axis, values: along.values, ...(this.along && { label: along.label, labelSize: 18 }) },
        { ...axis, size: 76, values: (_, splits) => splits.map((it) => this.unit(it)) },
      ],
      series: [{ label: along.label, value: (_, it) => (it === null ? '' : along.value(it)) },
        ...series],
      // The sign of a dashed line is dashed, too.
      legend: { markers: { dash: (_, i) => {
        const { dash = [] } = this.series[i - 1] || {};
        return dash.length ? 'dashed' : 'solid';
      } } },
      hooks: {
        drawClear: [(plot) => this.band(plot)],
        draw: [(plot) => this.whiskers(plot)],
        // Before a pointer comes there are no values, so names alone are shown.
        setLegend: [(plot) => {
          const { idx } = plot.cursor;
          plot.root.classList.toggle('told', idx !== null && idx !== undefined);
        }],
      },
    };
  }
  draw() {
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot(this.options(), this.columns, this.box);
    const over = this.plot.over;
    let down = 0;
    over.addEventListener('mousedown', (event) => { down = event.clientX; });
    over.addEventListener('click', (event) => {
      const index = this.plot.cursor.idx;
      const still = Math.abs(event.clientX - down) < 4;
      if (still && this.pick && index !== null && index !== undefined) this.pick(index);
    });
  }
  // Intervals within which points may as well lie.
  whiskers(plot) {
    const { ctx } = plot;
    ctx.save();
    ctx.globalAlpha = 0.6;
    this.series.forEach(({ spread = [], color }, place) => {
      ctx.strokeStyle = color();
      spread.forEach((ends, i) => {
        if (!ends || !plot.series[place + 1].show) return;
        const x = plot.valToPos(this.columns[0][i], 'x', true);
        const [low, high] = ends.map((end) => plot.valToPos(end, 'y', true));
        ctx.beginPath();
        ctx.moveTo(x, low);
        ctx.lineTo(x, high);
        ctx.stroke();
      });
    });
    ctx.restore();
  }
  // What the schedule shows.
  band(plot) {
    if (!this.view || this.view().whole) return;
    const [from, to] = this.view().ends.map((at) => plot.valToPos(at / 1e9, 'x', true));
    const { left, top, width, height } = plot.bbox;
    const begin = Math.max(left, from);
    const end = Math.min(left + width, Math.max(to, from + 2));
    if (end <= begin) return;
    plot.ctx.save();
    plot.ctx.globalAlpha = 0.14;
    plot.ctx.fillStyle = inked('--accent');
    plot.ctx.fillRect(begin, top, end - begin, height);
    plot.ctx.restore();
  }
  resize() {
    const width = this.box.clientWidth;
    if (width && Math.abs(width - this.plot.width) > 1) {
      this.plot.setSize({ width, height: this.height });
    }
  }
  moved() { this.plot.redraw(false); }
  remove() {
    this.resized.disconnect();
    this.plot.destroy();
    this.box.remove();
    CHARTS.delete(this);
  }
}

const SERIES = {
  line: (vcpu) => ({ name: 'delivered - C', color: () => colorOf(vcpu) }),
  short: { name: 'short', color: () => inked('--bad'), points: true },
  over: { name: 'over', color: () => inked('--warn'), points: true },
  stolen: { name: 'stolen', color: () => inked('--muted'), points: true },
  missed: { name: 'missed', color: () => inked('--bad'), points: true },
};

// What each period of a VCPU was given beyond C, where it asked for all of it.
function errorChart(host, vcpu, view, goTo) {
  const { periods } = vcpu;
  if (periods.found.every((it) => it === NO_DEMAND)) return null;
  const along = Array.from(periods.from, (at) => at / 1e9);
  const kept = (i) => (periods.found[i] === NO_DEMAND ? null : periods.error[i]);
  const columns = [along, Array.from(periods.from, (_, i) => kept(i))];
  const series = [SERIES.line(vcpu.id)];
  for (const [found, word] of [[SHORT, 'short'], [OVER, 'over'], [STOLEN, 'stolen']]) {
    if (!periods.found.includes(found)) continue;
    columns.push(Array.from(periods.found, (it, i) => (it === found ? periods.error[i] : null)));
    series.push(SERIES[word]);
  }
  const pick = (i) => goTo({ from: periods.from[i], to: periods.to[i], vcpu: vcpu.id });
  const title = `${vcpu.name}: delivered less C, period by period`;
  // Less than 1 % of C is not off: it is not to look as if it were.
  const least = (periods.budget[0] || 100) / 100;
  const end = (sign) => ({ soft: sign * least, mode: 1, pad: 0.1 });
  const range = { min: end(-1), max: end(1) };
  return new Chart(host, { title, columns, series, unit: signed, pick, view, range });
}

// How long each job took from its release.
// A job that is not complete at the end has taken that long at least.
function responseChart(host, vcpu, view, goTo, end) {
  const { jobs } = vcpu;
  if (!jobs.length) return null;
  const along = Array.from(jobs.release, (at) => at / 1e9);
  const response = Array.from(jobs.response, (it) => (Number.isNaN(it) ? null : it));
  const line = { name: 'response', color: () => colorOf(vcpu.id) };
  const due = { name: 'deadline', color: () => inked('--muted'), dash: [6, 4], width: 1 };
  const columns = [along, response, Array.from(jobs.deadline, (at, i) => at - jobs.release[i])];
  const series = [line, due];
  if (jobs.missed.length) {
    const missed = new Array(jobs.length).fill(null);
    for (const i of jobs.missed) missed[i] = response[i] ?? end - jobs.release[i];
    columns.push(missed);
    series.push(SERIES.missed);
  }
  const pick = (i) => {
    const to = jobs.release[i] + (response[i] || jobs.deadline[i] - jobs.release[i]);
    goTo({ from: jobs.release[i], to, vcpu: vcpu.id });
  };
  const title = `${vcpu.name}: response times of jobs`;
  return new Chart(host, { title, columns, series, unit: (ns) => time(ns), pick, view });
}

// Latency or requests of memory, sample by sample.
function memoryCharts(host, samples, view, goTo) {
  const along = samples.at.map((at) => at / 1e9);
  const pick = (i) => goTo({ from: i ? samples.at[i - 1] : 0, to: samples.at[i] });
  const made = [];
  const add = (title, name, values, unit) => {
    if (!values.some((it) => it)) return;
    const series = [{ name, color: () => colorOf(0) }];
    made.push(new Chart(host, { title, columns: [along, values], series, unit, pick, view }));
  };
  const plain = (value) => (Math.abs(value) >= 100 ? Math.round(value) : +value.toFixed(2))
    .toLocaleString('en');
  add('Mean memory latency of each sample (cycles)', 'latency', samples.latency, plain);
  add('Requests to memory in each sample', 'requests', samples.requests, plain);
  if (made.length) host.append(element('p', { class: 'muted' }, CHART_HELP));
  return made;
}
