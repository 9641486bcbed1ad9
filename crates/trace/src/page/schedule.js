'use strict';
// The schedule: rows of cores and VCPUs over a stretch of time, which wheel, drag, keys and buttons
// move.

const SPAN_LEAST = 200;
const KEYS = 'Keys: left and right move, + and - zoom, up and down choose a row, Home and End go '
  + 'to the begin and end, 0 shows all, n and p go to the next and previous trouble.';

class Schedule {
  constructor(run, host, onChoose) {
    Object.assign(this, { run, onChoose, chosen: 0, pointer: null, asked: null });
    this.watchers = [];
    [this.from, this.to] = [0, Math.max(run.end, SPAN_LEAST)];
    this.rows = run.cores.map((lane, core) => ({ lane, core, name: run.coreNames[core] }));
    for (const vcpu of run.vcpus) {
      if (vcpu.ran.length || vcpu.first !== null || vcpu.periods.length) {
        this.rows.push({ lane: vcpu.ran, vcpu, name: vcpu.name });
      }
    }
    this.troubles = this.collected();
    this.build(host);
    this.painter = new Painter(run, this.canvas.getContext('2d'));
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.listen();
  }

  // Everything that keys and buttons step through, in the order of time.
  collected() {
    const troubles = this.run.places.map(({ from, to, core }) => ({ from, to, core }));
    for (const vcpu of this.run.vcpus) {
      for (const i of vcpu.periods.off) {
        troubles.push({ from: vcpu.periods.from[i], to: vcpu.periods.to[i], vcpu: vcpu.id });
      }
      for (const i of vcpu.jobs.missed) {
        const to = vcpu.jobs.deadline[i];
        troubles.push({ from: vcpu.jobs.release[i], to, vcpu: vcpu.id });
      }
    }
    return troubles.sort((a, b) => a.from - b.from);
  }

  build(host) {
    const button = (text, label, act) => {
      const made = element('button', { type: 'button', title: label, 'aria-label': label }, text);
      made.addEventListener('click', act);
      return made;
    };
    const tools = element('div', { class: 'tools' });
    tools.append(
      button('◀', 'Move left', () => this.move(-0.4)),
      button('▶', 'Move right', () => this.move(0.4)),
      button('+', 'Zoom in', () => this.zoom(0.5)),
      button('−', 'Zoom out', () => this.zoom(2)),
      button('All', 'Show the whole run', () => this.show(0, this.run.end)),
    );
    for (const span of [1e9, 1e8, 1e6, 1e3].filter((span) => span < this.run.end)) {
      tools.append(button(time(span), `Show ${time(span)}`, () => this.zoom(span / this.span())));
    }
    if (this.troubles.length) {
      tools.append(
        button('< trouble', 'Previous trouble', () => this.step(-1)),
        button('trouble >', 'Next trouble', () => this.step(1)),
      );
    }
    this.output = element('output', { 'aria-live': 'polite', id: 'view' });
    tools.append(this.output);
    this.overview = element('canvas', { class: 'overview', 'aria-hidden': 'true' });
    const role = { tabindex: 0, role: 'application', 'aria-describedby': 'keys' };
    this.canvas = element('canvas', role);
    this.spacer = element('div', {});
    this.box = element('div', { class: 'rows' }, this.canvas, this.spacer);
    this.said = element('div', { class: 'said', 'aria-live': 'polite', id: 'said' });
    host.append(tools, element('div', { class: 'board' }, this.overview, this.box), this.said);
    host.append(legend(this.run), element('p', { class: 'muted', id: 'keys' }, KEYS));
  }

  span() { return this.to - this.from; }
  // Moves the view to [from, to), as far as there is something.
  show(from, to) {
    const span = Math.min(Math.max(to - from, SPAN_LEAST), Math.max(this.run.end, SPAN_LEAST));
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, 0), Math.max(this.run.end - span, 0));
    this.to = this.from + span;
    this.soon();
  }
  move(part) { this.show(this.from + this.span() * part, this.to + this.span() * part); }
  zoom(factor, at = (this.from + this.to) / 2) {
    const most = Math.max(this.run.end, SPAN_LEAST) / this.span();
    const by = Math.min(Math.max(factor, SPAN_LEAST / this.span()), most);
    this.show(at - (at - this.from) * by, at + (this.to - at) * by);
  }
  // Shows a stretch of time with as much around it, and marks it.
  goTo(stretch) {
    this.asked = stretch;
    const length = Math.max(stretch.to - stretch.from, 1e4);
    this.show(stretch.from - length, stretch.to + length);
    const row = this.rows.findIndex((it) => (stretch.vcpu === undefined
      ? it.core === stretch.core : it.vcpu && it.vcpu.id === stretch.vcpu));
    if (row >= 0) this.choose(row);
  }
  // Goes to the trouble after the one that was gone to, or before it; from elsewhere to the next one
  // by time, and at first to one that is not over where the view begins.
  step(direction) {
    const all = this.troubles;
    const here = this.asked ? this.asked.from : this.from;
    let place = all.indexOf(this.asked);
    if (place >= 0) place += direction;
    else if (direction < 0) place = all.filter((it) => it.from < here).length - 1;
    else place = all.findIndex((it) => (this.asked ? it.from > here : it.to > here));
    if (all[place]) this.goTo(all[place]);
  }
  choose(row) {
    this.chosen = row;
    const top = row * ROW;
    const seen = this.box.clientHeight - SCALE;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + ROW > this.box.scrollTop + seen) this.box.scrollTop = top + ROW - seen;
    if (this.rows[row].vcpu) this.onChoose(this.rows[row].vcpu.id);
    this.soon();
  }

  soon() {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.draw();
    });
  }
  restyle() {
    this.painter.restyle();
    this.soon();
  }

  draw() {
    const [width, all] = [this.box.clientWidth, this.rows.length * ROW + SCALE];
    if (!width) return;
    const most = Math.max(8 * ROW, Math.floor(window.innerHeight * 0.7));
    const height = Math.min(all, most);
    this.spacer.style.height = `${all - height}px`;
    const left = Math.min(150, width / 4);
    const pen = sized(this.canvas, width, height);
    const painter = this.painter;
    painter.look(this.from, this.to, left, width);
    pen.fillStyle = painter.paper;
    pen.fillRect(0, 0, width, height);
    painter.scale(height);
    const scroll = this.box.scrollTop;
    pen.save();
    pen.beginPath();
    pen.rect(0, SCALE, width, height - SCALE);
    pen.clip();
    const first = Math.floor(scroll / ROW);
    for (let row = first; row < this.rows.length; row += 1) {
      const top = SCALE + row * ROW - scroll;
      if (top > height) break;
      this.drawRow(row, top);
    }
    pen.restore();
    if (this.asked) painter.highlight(this.asked, SCALE, height - SCALE);
    this.drawOverview(width);
    this.describe();
    this.watchers.forEach((watch) => watch(this.from, this.to));
  }
  drawRow(row, top) {
    const [painter, pen, it] = [this.painter, this.painter.context, this.rows[row]];
    const names = this.run.vcpus;
    pen.fillStyle = painter.rule;
    pen.fillRect(0, top + ROW - 1, painter.right, it.core === this.run.cores.length - 1 ? 2 : 1);
    pen.save();
    pen.beginPath();
    pen.rect(painter.left, top, painter.right - painter.left, ROW);
    pen.clip();
    if (it.vcpu) {
      painter.wanted(it.vcpu, top);
      const color = colorOf(it.vcpu.id);
      const several = this.run.cores.length > 1;
      const core = (i) => (several ? this.run.coreNames[it.lane.other(i)] : '');
      painter.ran(it.lane, [{ lane: it.lane, color }], top, () => color, core);
      painter.jobs(it.vcpu, top);
      painter.periods(it.vcpu, top);
    } else {
      const parts = this.run.parts[it.core];
      const colored = parts && parts.map(({ id, lane }) => ({ lane, color: colorOf(id) }));
      const color = (i) => colorOf(it.lane.other(i));
      painter.ran(it.lane, colored || [{ lane: it.lane, color: painter.muted }], top, color,
        (i) => names[it.lane.other(i)].name);
      painter.places(it.core, top);
    }
    pen.restore();
    painter.label(it.name, top, it.vcpu && colorOf(it.vcpu.id), row === this.chosen);
  }
  // The whole run: where trouble is, and what is seen of it.
  drawOverview(width) {
    const pen = sized(this.overview, width, 30);
    const left = this.painter.left;
    const x = (at) => left + (at / Math.max(1, this.run.end)) * (width - left);
    pen.fillStyle = this.painter.raised;
    pen.fillRect(0, 0, width, 30);
    pen.fillStyle = this.painter.muted;
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    pen.fillText('whole run', 6, 15);
    pen.fillStyle = this.painter.bad;
    let drawn = -1;
    for (const trouble of this.troubles) {
      const at = Math.round(x(trouble.from));
      if (at !== drawn) pen.fillRect(at, 8, 1.5, 14);
      drawn = at;
    }
    pen.fillStyle = this.painter.accent;
    pen.globalAlpha = 0.22;
    pen.fillRect(x(this.from), 0, Math.max(3, x(this.to) - x(this.from)), 30);
    pen.globalAlpha = 1;
    pen.strokeStyle = this.painter.accent;
    pen.strokeRect(x(this.from) + 0.5, 0.5, Math.max(3, x(this.to) - x(this.from)) - 1, 29);
  }

  // What is seen, in words.
  describe() {
    const span = this.span();
    const ends = [this.from, this.to].map((at) => time(at, span / 1000));
    this.output.textContent = `${ends[0]} to ${ends[1]} (${time(span)})`;
    const row = this.pointer ? this.pointer.row : this.chosen;
    const it = this.rows[row];
    if (!it) return;
    this.said.textContent = this.pointer && this.pointer.at !== null
      ? sayAt(this.run, it, this.pointer.at) : saySum(it, this.from, this.to);
    const label = `Schedule, ${this.output.textContent}. ${this.said.textContent}`;
    this.canvas.setAttribute('aria-label', label);
  }

  timeAt(x) {
    const { left, right } = this.painter;
    return this.from + ((x - left) / (right - left)) * this.span();
  }
  listen() {
    const { canvas, box } = this;
    canvas.addEventListener('wheel', (event) => {
      if (event.offsetX < this.painter.left || event.shiftKey) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX / 1000);
      else this.zoom(Math.exp(event.deltaY * 0.002), this.timeAt(event.offsetX));
    }, { passive: false });
    box.addEventListener('scroll', () => this.soon());
    const held = new Map();
    canvas.addEventListener('pointerdown', (event) => {
      held.set(event.pointerId, event.offsetX);
      canvas.setPointerCapture(event.pointerId);
      this.dragged = 0;
      const row = this.rowAt(event.offsetY);
      if (row >= 0) this.choose(row);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (held.has(event.pointerId)) this.drag(event, held);
      else this.point(event);
    });
    const release = (event) => {
      held.delete(event.pointerId);
      canvas.classList.remove('drag');
    };
    canvas.addEventListener('pointerup', release);
    canvas.addEventListener('pointercancel', release);
    canvas.addEventListener('pointerleave', () => {
      this.pointer = null;
      this.soon();
    });
    canvas.addEventListener('dblclick', (event) => this.zoom(0.25, this.timeAt(event.offsetX)));
    canvas.addEventListener('keydown', (event) => this.key(event));
    this.overview.addEventListener('pointerdown', (event) => this.jump(event));
    this.overview.addEventListener('pointermove', (event) => {
      if (event.buttons) this.jump(event);
    });
  }
  jump(event) {
    const { left, right } = this.painter;
    const at = ((event.offsetX - left) / (right - left)) * this.run.end;
    this.show(at - this.span() / 2, at + this.span() / 2);
  }
  // One pointer moves, two zoom.
  drag(event, held) {
    const before = [...held.values()];
    const moved = event.offsetX - held.get(event.pointerId);
    held.set(event.pointerId, event.offsetX);
    this.canvas.classList.add('drag');
    if (held.size === 2) {
      const now = [...held.values()];
      const apart = (list) => Math.max(20, Math.abs(list[0] - list[1]));
      this.zoom(apart(before) / apart(now), this.timeAt((now[0] + now[1]) / 2));
    } else {
      this.move(-moved / (this.painter.right - this.painter.left));
    }
  }
  rowAt(y) {
    const row = Math.floor((y - SCALE + this.box.scrollTop) / ROW);
    return y >= SCALE && row < this.rows.length ? row : -1;
  }
  point(event) {
    const row = this.rowAt(event.offsetY);
    const at = event.offsetX >= this.painter.left ? this.timeAt(event.offsetX) : null;
    this.pointer = row < 0 ? null : { row, at };
    this.soon();
  }
  key(event) {
    const act = {
      ArrowLeft: () => this.move(-0.2),
      ArrowRight: () => this.move(0.2),
      ArrowUp: () => this.choose(Math.max(0, this.chosen - 1)),
      ArrowDown: () => this.choose(Math.min(this.rows.length - 1, this.chosen + 1)),
      '+': () => this.zoom(0.5),
      '=': () => this.zoom(0.5),
      '-': () => this.zoom(2),
      0: () => this.show(0, this.run.end),
      Home: () => this.show(0, this.span()),
      End: () => this.show(this.run.end - this.span(), this.run.end),
      n: () => this.step(1),
      p: () => this.step(-1),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}

// A canvas of so many pixels of the page, sharp on any screen.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    [canvas.width, canvas.height] = [wide, high];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

// What happened in a row at an instant.
function sayAt(run, row, at) {
  const { lane, vcpu } = row;
  const parts = [`${time(at, 1)}, ${row.name}:`];
  const i = lane.at(at);
  if (i >= 0) {
    const on = vcpu ? `on ${run.coreNames[lane.other(i)]}` : run.vcpus[lane.other(i)].name;
    const mode = lane.mode(i) ? 'background' : 'foreground';
    const took = time(lane.to[i] - lane.from[i]);
    parts.push(`${on} in the ${mode} for ${took}, from ${time(lane.from[i], 1)}`);
    parts.push(`to ${time(lane.to[i], 1)}; then: ${ENDS[lane.end(i)]}.`);
  } else if (!vcpu) {
    parts.push('nothing ran.');
  } else if (vcpu.throttled.at(at) >= 0) {
    parts.push('kept out by a limit of memory.');
  } else if (vcpu.first === null || at < vcpu.first || vcpu.idle.at(at) >= 0) {
    parts.push('had nothing to run.');
  } else {
    parts.push('waited.');
  }
  if (vcpu) {
    const p = firstAbove(vcpu.periods.to, at);
    if (p < vcpu.periods.length && vcpu.periods.from[p] <= at) {
      const error = vcpu.periods.error[p];
      const got = vcpu.periods.budget[p] + error;
      parts.push(`Its period from ${time(vcpu.periods.from[p], 1)}: ${time(got)} of `
        + `${time(vcpu.periods.budget[p])} (${signed(error)}), ${FOUND[vcpu.periods.found[p]]}.`);
    }
  } else {
    const near = run.places.find((it) => it.core === row.core && it.from <= at && at <= it.to);
    if (near) parts.push(`${near.text}.`);
  }
  return parts.join(' ');
}

// How a row spent what is seen.
function saySum(row, from, to) {
  const times = [0, 1].map((mode) => row.lane.time(mode, from, to));
  const share = (mode) => `${time(times[mode])} (${percent(times[mode] / (to - from))})`;
  return `${row.name}: foreground ${share(0)}, background ${share(1)} of ${time(to - from)}.`;
}

// What the shapes mean, of those that this run has.
function legend(run) {
  const { vcpus, places } = run;
  const host = element('div', { class: 'legend', 'aria-label': 'Legend' });
  const entry = (text, draw) => {
    const canvas = element('canvas', { 'aria-hidden': 'true' });
    host.append(element('span', {}, canvas, text));
    canvas.redraw = () => {
      const pen = sized(canvas, 26, 16);
      pen.clearRect(0, 0, 26, 16);
      draw(pen);
    };
    canvas.redraw();
  };
  const box = (top, height, alpha) => (pen) => {
    pen.globalAlpha = alpha;
    pen.fillStyle = colorOf(0);
    pen.fillRect(1, top, 24, height);
    pen.globalAlpha = 1;
  };
  entry('foreground (on budget)', box(1, 14, 1));
  entry('background (surplus)', box(8, 7, 0.55));
  entry('has something to run', (pen) => {
    pen.fillStyle = inked('--muted');
    pen.fillRect(1, 13, 24, 1.5);
  });
  if (vcpus.some((it) => it.throttled.length)) {
    entry('kept out by memory limits', (pen) => {
      pen.fillStyle = stripes(pen, inked('--bad'));
      pen.fillRect(1, 5, 24, 9);
    });
  }
  if (vcpus.some((it) => it.jobs.length)) {
    entry('release of a job', (pen) => new Painter(null, pen).arrow(12, 0));
  }
  if (vcpus.some((it) => it.jobs.missed.length)) {
    entry('missed deadline', (pen) => new Painter(null, pen).cross(12, 0));
  }
  const sign = (found) => (pen) => {
    const painter = new Painter(null, pen);
    painter.mark(found, 1, 25, 2);
  };
  for (const [found, text] of [[SHORT, 'period too short'], [OVER, 'period over budget'],
    [STOLEN, 'period stolen, not judged']]) {
    if (vcpus.some(({ periods }) => periods.found.includes(found))) entry(text, sign(found));
  }
  if (places.length) entry('trouble reported of a core', (pen) => {
    pen.fillStyle = inked('--bad');
    pen.fillRect(1, 1, 24, 4);
    pen.beginPath();
    pen.arc(8, 9, 6, 0, 7);
    pen.fill();
    pen.fillStyle = inked('--paper');
    pen.font = '700 10px system-ui, sans-serif';
    pen.fillText('!', 6.4, 12.5);
  });
  return host;
}
