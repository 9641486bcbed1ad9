'use strict';
// Reads the lists of a run and answers what happened in any stretch of time. Times are nanoseconds.

const ENDS = ['another took the core', 'budget ended', 'nothing left to run',
  'memory allowance spent', 'moved to another core', 'exited', 'runs on'];
const FOUND = ['kept', 'no demand', 'held', 'short', 'over', 'stolen'];
const PARTS_MAX = 12;
const NO_DEMAND = 1, SHORT = 3, OVER = 4, STOLEN = 5;

// Reads what `pack.rs` wrote.
class Reader {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) this.bytes[i] = text.charCodeAt(i);
    this.place = 0;
  }
  number() {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = this.bytes[this.place];
      this.place += 1;
      if (byte < 128) return value + byte * scale;
      value += (byte - 128) * scale;
      scale *= 128;
    }
  }
  signed() {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

// Intervals in the order of time that do not overlap.
class Lane {
  constructor(length) {
    this.length = length;
    this.from = new Float64Array(length);
    this.to = new Float64Array(length);
    this.said = new Uint32Array(length);
  }
  static read(reader, length) {
    const lane = new Lane(length);
    let before = 0;
    for (let i = 0; i < length; i += 1) {
      lane.from[i] = before + reader.signed();
      lane.to[i] = lane.from[i] + reader.number();
      lane.said[i] = reader.number();
      before = lane.to[i];
    }
    return lane;
  }
  // Sums of foreground and background time up to each interval.
  summed() {
    this.sums = [new Float64Array(this.length + 1), new Float64Array(this.length + 1)];
    for (let i = 0; i < this.length; i += 1) {
      const [mode, took] = [this.mode(i), this.to[i] - this.from[i]];
      this.sums[mode][i + 1] = this.sums[mode][i] + took;
      this.sums[1 - mode][i + 1] = this.sums[1 - mode][i];
    }
    return this;
  }
  // Those of which `chosen` is true.
  picked(chosen) {
    const places = [];
    for (let i = 0; i < this.length; i += 1) if (chosen(this.said[i])) places.push(i);
    if (places.length === this.length) return this;
    const lane = new Lane(places.length);
    for (const name of ['from', 'to', 'said']) {
      places.forEach((from, to) => { lane[name][to] = this[name][from]; });
    }
    return lane.summed();
  }
  mode(i) { return (this.said[i] >> 3) & 1; }
  end(i) { return this.said[i] & 7; }
  // A VCPU in the lane of a core, a core in the lane of a VCPU.
  other(i) { return this.said[i] >>> 4; }
  // The first interval that ends after `at`.
  after(at) { return firstAbove(this.to, at); }
  // The interval at `at`, or -1.
  at(at) {
    const i = this.after(at);
    return i < this.length && this.from[i] <= at ? i : -1;
  }
  // How much of [from, to) there was of a mode.
  time(mode, from, to) { return this.until(mode, to) - this.until(mode, from); }
  until(mode, at) {
    const i = this.after(at);
    const open = i < this.length && this.from[i] < at && this.mode(i) === mode;
    return this.sums[mode][i] + (open ? at - this.from[i] : 0);
  }
}

// The first place whose value is above `value`, in a list that increases.
function firstAbove(list, value) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

// What ran of each VCPU, from what ran on each core.
function byVcpu(cores, count) {
  const lengths = new Uint32Array(count);
  for (const core of cores) {
    for (let i = 0; i < core.length; i += 1) lengths[core.other(i)] += 1;
  }
  const lanes = Array.from(lengths, (length) => new Lane(length));
  const filled = new Uint32Array(count);
  cores.forEach((core, number) => {
    for (let i = 0; i < core.length; i += 1) {
      const vcpu = core.other(i);
      const [lane, place] = [lanes[vcpu], filled[vcpu]];
      lane.from[place] = core.from[i];
      lane.to[place] = core.to[i];
      lane.said[place] = number * 16 + (core.said[i] & 15);
      filled[vcpu] += 1;
    }
  });
  return lanes.map((lane) => inOrder(lane).summed());
}

// What ran on each core VCPU by VCPU, for sums; null where there are too many to tell apart.
function byCore(cores, vcpus) {
  return cores.map((core, number) => {
    const parts = [];
    for (const vcpu of vcpus) {
      const onCore = vcpu.ran.picked((said) => said >>> 4 === number);
      if (onCore.length) parts.push({ id: vcpu.id, lane: onCore });
      if (parts.length > PARTS_MAX) return null;
    }
    return parts;
  });
}

function inOrder(lane) {
  let sorted = true;
  for (let i = 1; i < lane.length && sorted; i += 1) sorted = lane.from[i] >= lane.from[i - 1];
  if (sorted) return lane;
  const order = Uint32Array.from(lane.from, (_, i) => i);
  order.sort((a, b) => lane.from[a] - lane.from[b]);
  const next = new Lane(lane.length);
  order.forEach((from, to) => {
    next.from[to] = lane.from[from];
    next.to[to] = lane.to[from];
    next.said[to] = lane.said[from];
  });
  return next;
}

function readJobs(reader, length) {
  const jobs = { length, missed: [] };
  for (const name of ['release', 'deadline', 'response']) jobs[name] = new Float64Array(length);
  let before = 0;
  for (let i = 0; i < length; i += 1) {
    jobs.release[i] = before + reader.number();
    jobs.deadline[i] = jobs.release[i] + reader.number();
    const response = reader.number();
    jobs.response[i] = response === 0 ? NaN : response - 1;
    if (reader.number() === 1) jobs.missed.push(i);
    before = jobs.release[i];
  }
  return jobs;
}

function readPeriods(reader, length) {
  const periods = { length, off: [], found: new Uint8Array(length) };
  for (const name of ['from', 'to', 'budget', 'error']) periods[name] = new Float64Array(length);
  let [before, last, budget] = [0, 0, 0];
  for (let i = 0; i < length; i += 1) {
    periods.from[i] = before + reader.signed();
    last += reader.signed();
    budget += reader.signed();
    periods.to[i] = periods.from[i] + last;
    periods.budget[i] = budget;
    periods.error[i] = reader.signed();
    periods.found[i] = reader.number();
    if (periods.found[i] >= SHORT) periods.off.push(i);
    before = periods.to[i];
  }
  periods.offFrom = Float64Array.from(periods.off, (i) => periods.from[i]);
  return periods;
}

// The whole run, as `Schedule::pack` wrote it.
function readRun(data, base64) {
  const reader = new Reader(base64);
  const counts = data.counts;
  const cores = counts.spans.map((length) => Lane.read(reader, length).summed());
  const lanes = byVcpu(cores, data.vcpus.length);
  const vcpus = data.vcpus.map((vcpu, id) => ({ ...vcpu, id, ran: lanes[id] }));
  vcpus.forEach((vcpu, id) => { vcpu.idle = Lane.read(reader, counts.idle[id]); });
  vcpus.forEach((vcpu, id) => { vcpu.throttled = Lane.read(reader, counts.throttled[id]); });
  vcpus.forEach((vcpu, id) => { vcpu.jobs = readJobs(reader, counts.jobs[id]); });
  vcpus.forEach((vcpu, id) => { vcpu.periods = readPeriods(reader, counts.periods[id] || 0); });
  const samples = { at: [], requests: [], latency: [] };
  for (let i = 0, at = 0; i < counts.samples; i += 1) {
    at += reader.number();
    const [requests, occupancy] = [reader.number(), reader.number()];
    samples.at.push(at);
    samples.requests.push(requests);
    samples.latency.push(requests > 0 && occupancy > 0 ? occupancy / requests : null);
  }
  const places = data.places.list;
  const parts = byCore(cores, vcpus);
  return { end: data.end, cores, parts, coreNames: data.cores, vcpus, samples, places };
}

// `9.998ms`: so many digits and the unit that needs fewest. `step` asks for those that tell
// numbers apart which are so far from each other.
function time(ns, step) {
  const size = Math.abs(ns);
  const units = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
  const least = size < 999.95 ? 0 : size < 999.95e3 ? 1 : size < 999.95e6 ? 2 : 3;
  const [scale, unit] = units[least];
  if (size < 0.5) return '0';
  // Steps of 2.5 need a digit more than those of 2 and 5.
  const parts = step ? (step / scale) / 10 ** Math.floor(Math.log10(step / scale) + 1e-9) : 1;
  const digits = step
    ? Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9)
      + (Math.abs(parts - Math.round(parts)) > 1e-6 ? 1 : 0))
    : Math.max(0, 3 - Math.floor(Math.log10(size / scale) + 1e-9));
  const text = (ns / scale).toFixed(Math.min(digits, unit === 'ns' ? 0 : 12));
  return (text.includes('.') && !step ? text.replace(/\.?0+$/, '') : text) + unit;
}
const signed = (ns) => (ns > 0 ? '+' : '') + time(ns);
const percent = (part) => `${(part * 100).toFixed(1)}%`;
