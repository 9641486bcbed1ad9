'use strict';
// Draws rows of the schedule onto a canvas. A row whose intervals are wider than pixels is drawn
// interval by interval; else each column of pixels shows how much of its time was spent how.

// Colours that people with any colour vision can distinguish (Okabe and Ito, 2008), lighter on a
// dark page. Names and heights say the same: nothing hangs on colour alone.
const COLORS = {
  light: ['#0072b2', '#d98a00', '#009e73', '#d55e00', '#b8578f', '#3d9fd6', '#5a5a5a'],
  dark: ['#4aa8e0', '#f0b030', '#2bc79a', '#ff8a3c', '#e08cbc', '#8fd0f5', '#a8a8a8'],
};
const ROW = 30;
const SCALE = 24;
// More intervals than this in a column are drawn as a sum.
const PER_PIXEL = 0.4;

const theme = () => (document.documentElement.dataset.theme === 'dark' ? 'dark' : 'light');
const colorOf = (vcpu) => COLORS[theme()][vcpu % COLORS[theme()].length];
const inked = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Stripes for what was kept out by limits of memory.
function stripes(context, color) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const pen = tile.getContext('2d');
  pen.strokeStyle = color;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, 'repeat');
}

// Steps of 1, 2 and 5 that leave room for their labels, up to minutes and hours.
function step(span, pixels) {
  const least = span / Math.max(1, pixels / 110);
  const power = 10 ** Math.floor(Math.log10(least));
  const found = [1, 2, 5, 10].find((times) => times * power >= least * 0.999);
  return Math.max(1, found * power);
}

class Painter {
  constructor(run, context) {
    [this.run, this.context] = [run, context];
    this.restyle();
  }
  // After a change between light and dark.
  restyle() {
    for (const name of ['paper', 'raised', 'ink', 'muted', 'rule', 'bad', 'warn', 'accent']) {
      this[name] = inked(`--${name}`);
    }
    this.stripes = stripes(this.context, this.bad);
  }
  // What is seen: an interval of time on an interval of pixels.
  look(from, to, left, right) {
    [this.from, this.to, this.left, this.right] = [from, to, left, right];
    this.pixels = (right - left) / (to - from);
  }
  x(at) { return this.left + (at - this.from) * this.pixels; }
  at(x) { return this.from + (x - this.left) / this.pixels; }

  // Numbers along the top, and lines down from them.
  scale(height) {
    const pen = this.context;
    const every = step(this.to - this.from, this.right - this.left);
    pen.fillStyle = this.raised;
    pen.fillRect(0, 0, this.right, SCALE);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    for (let n = Math.ceil(this.from / every); n * every <= this.to; n += 1) {
      const x = Math.round(this.x(n * every)) + 0.5;
      pen.fillStyle = this.rule;
      pen.fillRect(x, SCALE - 5, 1, height - SCALE + 5);
      const label = time(n * every, n === 0 ? 0 : every);
      pen.fillStyle = this.muted;
      if (x + 4 + pen.measureText(label).width < this.right) pen.fillText(label, x + 4, SCALE / 2);
    }
  }

  // The name of a row, cut to fit.
  label(text, top, color, chosen) {
    const pen = this.context;
    pen.fillStyle = chosen ? this.raised : this.paper;
    pen.fillRect(0, top, this.left, ROW);
    if (color) {
      pen.fillStyle = color;
      pen.fillRect(6, top + 9, 11, 11);
    }
    pen.fillStyle = this.ink;
    pen.font = `${chosen ? '600 ' : ''}13px system-ui, sans-serif`;
    pen.textBaseline = 'middle';
    const begin = color ? 23 : 6;
    let shown = text;
    while (shown.length > 1 && pen.measureText(shown).width > this.left - begin - 6) {
      shown = `${shown.slice(0, -2)}…`;
    }
    pen.fillText(shown, begin, top + ROW / 2);
  }

  // What ran on a core, or of a VCPU: foreground at full height, background at half.
  ran(lane, parts, top, colorAt, nameAt) {
    const pen = this.context;
    const [first, end] = [lane.after(this.from), this.last(lane)];
    if (end - first > (this.right - this.left) * PER_PIXEL) {
      this.summed(parts, top);
      return;
    }
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    for (let i = first; i < end; i += 1) {
      const left = Math.max(this.left, this.x(lane.from[i]));
      const width = Math.min(this.right, this.x(lane.to[i])) - left;
      const background = lane.mode(i) === 1;
      const [y, height] = background ? [top + ROW / 2, ROW / 2 - 3] : [top + 3, ROW - 6];
      pen.globalAlpha = background ? 0.55 : 1;
      pen.fillStyle = colorAt(i);
      pen.fillRect(left, y, Math.max(0.7, width - (width > 4 ? 0.7 : 0)), height);
      pen.globalAlpha = 1;
      const name = width > 34 && nameAt ? nameAt(i) : '';
      if (name && pen.measureText(name).width < width - 6) {
        pen.fillStyle = background ? this.ink : this.paper;
        pen.fillText(name, left + 4, y + height / 2 + 0.5);
      }
    }
  }
  // The first interval that begins at or after the end of what is seen.
  last(lane) {
    let place = firstAbove(lane.from, this.to);
    while (place > 0 && lane.from[place - 1] >= this.to) place -= 1;
    return place;
  }
  // Of each column of pixels how much was foreground, below, and background, above it.
  summed(parts, top) {
    const pen = this.context;
    const width = (this.to - this.from) / (this.right - this.left);
    const sums = (at) => parts.map(({ lane }) => [lane.until(0, at), lane.until(1, at)]);
    let before = sums(this.from);
    for (let x = this.left; x < this.right; x += 1) {
      const now = sums(this.from + (x + 1 - this.left) * width);
      let y = top + ROW - 3;
      for (const mode of [0, 1]) {
        pen.globalAlpha = mode === 0 ? 1 : 0.45;
        parts.forEach(({ color }, i) => {
          const height = ((now[i][mode] - before[i][mode]) / width) * (ROW - 6);
          y -= height;
          pen.fillStyle = color;
          pen.fillRect(x, y, 1, height);
        });
      }
      before = now;
    }
    pen.globalAlpha = 1;
  }

  // A thin line while a VCPU has something to run; stripes while memory kept it out.
  wanted(vcpu, top) {
    const pen = this.context;
    if (vcpu.first === null) return;
    const begin = Math.max(this.left, this.x(vcpu.first));
    const end = Math.min(this.right, this.x(vcpu.exited === null ? this.run.end : vcpu.exited));
    if (end <= begin) return;
    pen.fillStyle = this.muted;
    pen.fillRect(begin, top + ROW - 3, end - begin, 1.5);
    pen.fillStyle = this.paper;
    this.each(vcpu.idle, (left, width) => pen.fillRect(left, top + ROW - 4, width, 3));
    pen.fillStyle = this.stripes;
    this.each(vcpu.throttled, (left, width) => pen.fillRect(left, top + ROW - 12, width, 9));
  }
  // Every interval that is seen; those of one pixel are drawn once.
  each(lane, draw) {
    const end = this.last(lane);
    for (let i = lane.after(this.from), until = this.left; i < end; i += 1) {
      const left = Math.max(this.left, this.x(lane.from[i]));
      const right = Math.min(this.right, this.x(lane.to[i]));
      if (right - until >= 0.5) draw(left, Math.max(0.5, right - left));
      else i = Math.max(i, firstAbove(lane.to, this.at(until + 0.5)) - 1);
      until = Math.max(until, right);
    }
  }

  // Starts of periods where they are wide enough, and marks on those that were not kept.
  periods(vcpu, top) {
    const [pen, periods] = [this.context, vcpu.periods];
    const begin = firstAbove(periods.to, this.from);
    const end = firstAbove(periods.from, this.to);
    if ((end - begin) * 14 < this.right - this.left) {
      pen.fillStyle = this.muted;
      for (let i = begin; i < end; i += 1) {
        const x = this.x(periods.from[i]);
        if (x >= this.left) pen.fillRect(x, top, 1, ROW);
      }
    }
    let place = firstAbove(periods.offFrom, this.from) - 1;
    let drawn = -9;
    for (place = Math.max(0, place); place < periods.off.length; place += 1) {
      const i = periods.off[place];
      if (periods.from[i] > this.to) break;
      const [left, right] = [this.x(periods.from[i]), this.x(periods.to[i])];
      if (right < this.left) continue;
      if (left - drawn < 3) {
        const next = firstAbove(periods.offFrom, this.at(drawn + 3));
        place = Math.max(place, next - 1);
        continue;
      }
      drawn = left;
      this.mark(periods.found[i], Math.max(this.left, left), Math.min(this.right, right), top);
    }
  }
  // Short: a triangle that points down; over: up; stolen: a circle.
  mark(found, left, right, top) {
    const pen = this.context;
    pen.fillStyle = found === STOLEN ? this.muted : found === SHORT ? this.bad : this.warn;
    pen.fillRect(left, top, Math.max(2, right - left), 2.5);
    const [x, tip] = [Math.max(left + 5, (left + right) / 2), found === OVER ? -6 : 6];
    pen.beginPath();
    if (found === STOLEN) {
      pen.arc(x, top + 5, 3.5, 0, 7);
    } else {
      const base = found === OVER ? top + 9 : top + 2;
      pen.moveTo(x - 5, base);
      pen.lineTo(x + 5, base);
      pen.lineTo(x, base + tip);
    }
    pen.fill();
    pen.strokeStyle = this.paper;
    pen.stroke();
  }

  // The head of a release's arrow.
  arrow(x, top) {
    const pen = this.context;
    pen.fillStyle = this.ink;
    pen.beginPath();
    pen.moveTo(x - 3, top + 8);
    pen.lineTo(x + 4, top + 8);
    pen.lineTo(x + 0.6, top + 3);
    pen.fill();
  }
  // A missed deadline.
  cross(x, top) {
    const pen = this.context;
    pen.strokeStyle = this.bad;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x - 4, top + 4);
    pen.lineTo(x + 4, top + 12);
    pen.moveTo(x + 4, top + 4);
    pen.lineTo(x - 4, top + 12);
    pen.stroke();
    pen.lineWidth = 1;
  }

  // Releases, deadlines and ends of jobs; missed deadlines at any scale.
  jobs(vcpu, top) {
    const [pen, jobs] = [this.context, vcpu.jobs];
    let begin = firstAbove(jobs.release, this.from);
    if (begin > 0 && jobs.release[begin - 1] === this.from) begin -= 1;
    const end = firstAbove(jobs.release, this.to);
    if ((end - begin) * 12 < this.right - this.left) {
      pen.fillStyle = this.ink;
      for (let i = begin; i < end; i += 1) {
        const x = this.x(jobs.release[i]);
        pen.fillRect(x, top + 4, 1.3, ROW - 6);
        this.arrow(x, top);
      }
    }
    let drawn = -9;
    for (const i of jobs.missed) {
      const x = this.x(jobs.deadline[i]);
      if (x < this.left || x - drawn < 4) continue;
      if (x > this.right) break;
      drawn = x;
      this.cross(x, top);
    }
  }

  // What the machine reported of a core: a band from its begin to its end, with a sign.
  places(core, top) {
    const pen = this.context;
    let drawn = -9;
    for (const place of this.run.places) {
      if (place.core !== core || place.to < this.from || place.from > this.to) continue;
      const [left, right] = [this.x(place.from), this.x(place.to)];
      const begin = Math.max(this.left, left);
      pen.fillStyle = this.bad;
      pen.fillRect(begin, top, Math.max(2, Math.min(right, this.right) - begin), 4);
      if (begin - drawn < 12) continue;
      drawn = begin;
      pen.beginPath();
      pen.arc(begin + 6, top + 8, 6, 0, 7);
      pen.fill();
      pen.fillStyle = this.paper;
      pen.font = '700 10px system-ui, sans-serif';
      pen.textBaseline = 'middle';
      pen.fillText('!', begin + 4.4, top + 8.5);
    }
  }

  // The period that was asked for.
  highlight(stretch, top, height) {
    const pen = this.context;
    const left = Math.max(this.left, this.x(stretch.from));
    const right = Math.min(this.right, this.x(stretch.to));
    if (right < this.left || left > this.right) return;
    pen.fillStyle = this.accent;
    pen.globalAlpha = 0.14;
    pen.fillRect(left, top, Math.max(2, right - left), height);
    pen.globalAlpha = 1;
    pen.fillRect(left, top, 1.5, height);
    pen.fillRect(right - 1.5, top, 1.5, height);
  }
}
