'use strict';
// Puts the page together: verdicts first, then causes, the schedule, and figures of each part.

// An element with attributes and children; texts are always text.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function section(title, id) {
  const made = element('section', { id, 'aria-labelledby': `${id}-title` });
  made.append(element('h2', { id: `${id}-title` }, title));
  document.getElementById('content').append(made);
  document.getElementById('sections').append(element('a', { href: `#${id}` }, title));
  return made;
}

// A table: heads are [text, class] or text, cells are texts or elements.
function table(heads, rows) {
  const head = element('tr', {});
  for (const it of heads) {
    const [text, kind] = Array.isArray(it) ? it : [it, ''];
    head.append(element('th', { scope: 'col', class: kind }, text));
  }
  const body = element('tbody', {});
  rows.forEach((cells) => {
    const row = element('tr', {});
    cells.forEach((cell, place) => {
      const kind = Array.isArray(heads[place]) ? heads[place][1] : '';
      row.append(element('td', { class: kind }, cell === null ? '-' : cell));
    });
    body.append(row);
  });
  const made = element('table', {}, element('thead', {}, head), body);
  return element('div', { class: 'scroll' }, made);
}

// A head over three columns of a table that has so many, from the column `first` on.
function over(made, first, text, columns) {
  const row = element('tr', {});
  row.append(element('td', { colspan: first }), element('th',
    { colspan: 3, scope: 'colgroup', class: 'over' }, text));
  row.append(element('td', { colspan: columns - first - 3 }));
  made.querySelector('thead').prepend(row);
}

const link = (text, act) => {
  const made = element('button', { type: 'button', class: 'link' }, text);
  made.addEventListener('click', act);
  return made;
};
const plural = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;

const BROKEN = ['short', 'over', 'both'];
const ERRORS = ['1 % below', 'median', '1 % above'];
const WORDS = {
  none: 'nothing promised', kept: 'kept', short: 'NOT KEPT', over: 'NOT KEPT', both: 'NOT KEPT',
  'no-demand': 'not judged', 'no-period': 'not judged', held: 'not judged', stolen: 'not judged',
};

class RunPage {
  constructor(data, lists) {
    this.data = data;
    this.report = data.report;
    this.run = readRun(data, lists);
    this.charts = [];
    document.getElementById('title').textContent = data.title;
    this.banner();
    this.verdicts();
    this.causes();
    const host = section('Schedule', 'schedule');
    this.schedule = new Schedule(this.run, host, (vcpu) => this.choose(vcpu));
    this.schedule.watchers.push(() => CHARTS.forEach((chart) => chart.view && chart.moved()));
    this.details();
    this.cores();
    this.uneven();
    this.memory();
    this.text();
  }
  view() {
    const { from, to } = this.schedule;
    return { ends: [from, to], whole: from <= 0 && to >= this.run.end };
  }
  goTo(stretch) {
    this.schedule.goTo(stretch);
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const behavior = still ? 'auto' : 'smooth';
    document.getElementById('schedule').scrollIntoView({ behavior, block: 'start' });
    this.schedule.canvas.focus({ preventScroll: true });
  }

  banner() {
    const { report } = this;
    const judged = report.tasks.filter((task) => task.verdict.word !== 'none');
    const broken = judged.filter((task) => BROKEN.includes(task.verdict.word));
    const kept = judged.filter((task) => task.verdict.word === 'kept');
    const { jobs, misses } = report.total;
    const inTime = jobs > 0 && misses === 0;
    const open = !kept.length && !inTime ? 'banner open' : 'banner';
    const box = element('div', { class: report.promise.kept ? open : 'banner broken' });
    let text = 'No promise was broken';
    if (broken.length) text = `${broken.length} of ${judged.length} promises NOT kept`;
    else if (report.promise.cut) text = 'The run was cut short';
    else if (!report.promise.kept) text = 'The run did not keep its promise';
    else if (kept.length && kept.length === judged.length) text = 'All promises kept';
    else if (!judged.length) text = 'Nothing was promised';
    else if (!kept.length && inTime) text = 'No promise was broken, no deadline missed';
    else if (!kept.length) text = 'No promise was broken; none could be judged';
    const where = report.machine === 'sim' ? 'simulated' : 'run live';
    const missed = jobs ? `; ${plural(misses, 'missed deadline')} of ${plural(jobs, 'job')}` : '';
    box.append(
      element('strong', {}, text),
      `${plural(report.tasks.length, 'VCPU')} on ${plural(report.cores.length, 'core')} under `
        + `${report.policy}, ${where} for ${time(report.duration_ns)}${missed}`,
    );
    if (report.lost_records) {
      const lost = `${report.lost_records} journal records were lost: `
        + 'every figure is a lower bound';
      box.append(element('p', { class: 'bad' }, lost));
    }
    this.data.words.run.forEach((line) => box.append(element('p', { class: 'bad' }, line)));
    document.getElementById('content').append(box);
  }

  verdicts() {
    const host = section('Verdicts', 'verdicts');
    const jobs = this.report.total.jobs > 0;
    const all = [['VCPU', 'text'], ['verdict', 'text'], 'C / T',
      ...(jobs ? ['jobs', 'misses', 'response mean', 'longest'] : []), 'delivered', ...ERRORS,
      'foreground', 'background', 'share', 'preempted', 'migrated'];
    this.verdictRows = new Map();
    const cells = this.report.tasks.map((task, place) => this.verdict(task, place, jobs));
    // A column in which no VCPU has a value tells nothing.
    const filled = all.map((_, column) => cells.some((row) => row[column] !== null));
    const [heads, ...rows] = [all, ...cells].map((row) => row.filter((_, at) => filled[at]));
    const made = table(heads, rows);
    const errors = heads.indexOf(ERRORS[0]);
    if (errors >= 0) over(made, errors, 'delivered less C', heads.length);
    made.querySelectorAll('tbody tr').forEach((row, place) => {
      this.verdictRows.set(this.report.tasks[place].id, row);
    });
    host.append(made);
    const notes = [['C / T', 'C / T: what was promised, time C in every period T.'],
      ['delivered', 'delivered: mean foreground time in a period.'],
      [ERRORS[0], 'delivered less C: period by period, below 0 where it got too little; 1 % of '
        + 'the periods are below the first value, half below the second, 1 % above the third.']];
    const said = notes.filter(([head]) => heads.includes(head)).map(([, note]) => note);
    if (said.length) host.append(element('p', { class: 'muted' }, said.join(' ')));
    if (this.report.tasks.some((task) => task.verdict.word === 'no-demand')) {
      host.append(element('p', { class: 'muted' }, 'no demand: it asked for less than C in most '
        + 'periods; judge it by its misses.'));
    }
  }
  verdict(task, place, jobs) {
    const or = (value, shown) => (value === null ? null : shown(value));
    const name = link(task.name, () => {
      this.choose(task.id);
      document.getElementById('vcpu').scrollIntoView();
    });
    const key = element('span', { class: 'key' });
    key.style.background = colorOf(task.id);
    key.dataset.vcpu = task.id;
    const { word } = task.verdict;
    const kind = BROKEN.includes(word) ? 'bad' : word === 'kept' ? 'good' : 'muted';
    const said = this.data.words.verdicts[place].join(', ');
    const verdict = element('span', {}, element('span', { class: kind }, WORDS[word]), ` ${said}`);
    const promised = task.budget_ns ? `${time(task.budget_ns)} / ${time(task.period_ns)}` : null;
    const it = task.delivered;
    const ofJobs = task.jobs ? [String(task.jobs), String(task.misses), time(task.response_mean_ns),
      time(task.response_max_ns)] : [null, null, null, null];
    return [element('span', {}, key, name), verdict, promised, ...(jobs ? ofJobs : []),
      or(it.mean_ns, time), or(it.signed_error_p1_ns, signed), or(it.signed_error_p50_ns, signed),
      or(it.signed_error_p99_ns, signed), time(task.foreground_ns), time(task.background_ns),
      percent(task.share), String(task.preemptions), String(task.migrations)];
  }

  causes() {
    const { broken, places } = this.data;
    if (!broken.length && !places.list.length) return;
    const host = section('Causes', 'causes');
    if (!this.report.promise.kept || broken.length) {
      host.append(element('p', {}, 'Every period that was not kept, the worst first, and what '
        + 'the machine reported then. Choose one to see it in the schedule.'));
    }
    broken.forEach((it) => this.brokenOf(it, host));
    this.report.cores.forEach((core, place) => {
      const said = this.data.words.causes[place];
      if (said.length) host.append(element('p', {}, `core${core.core}: ${said.join(', ')}`));
    });
    if (places.list.length) this.allPlaces(host);
  }
  brokenOf({ vcpu, count, periods }, host) {
    const task = this.report.tasks.find((it) => it.id === vcpu);
    const place = this.report.tasks.indexOf(task);
    const judged = BROKEN.includes(task.verdict.word);
    const said = this.data.words.verdicts[place].join(', ');
    const word = element('span', { class: judged ? 'bad' : 'muted' }, WORDS[task.verdict.word]);
    const text = count > periods.length ? ` (the worst ${periods.length} of ${count})` : '';
    const list = element('ul', { class: 'causes', 'data-vcpu': vcpu });
    periods.forEach((period, index) => {
      const item = this.period(vcpu, period);
      item.hidden = index >= 8;
      list.append(item);
    });
    host.append(element('h3', {}, `${task.name}: `, word, ` ${said}${text}`), list);
    if (periods.length > 8) {
      const more = link(`show ${periods.length - 8} more`, () => {
        for (const item of list.children) item.hidden = false;
        more.remove();
      });
      host.append(more);
    }
  }
  period(vcpu, it) {
    const error = it.delivered - it.budget;
    const text = `${it.word} by ${time(Math.abs(error))} at ${time(it.from, 1e6)}`;
    const go = link(text, () => this.goTo({ from: it.from, to: it.to, vcpu }));
    go.dataset.from = it.from;
    go.setAttribute('aria-label', `${text}: show in the schedule`);
    const why = element('span', { class: 'cause' });
    it.places.forEach((index, order) => {
      const place = this.data.places.list[index];
      why.append(order ? '; ' : '', this.placeLink(place));
    });
    if (!it.places.length) {
      const sim = this.report.machine === 'sim';
      why.className = 'cause muted';
      why.append(sim ? 'a simulation reports no causes' : 'no cause was reported near it');
    }
    return element('li', {}, go, why);
  }
  placeLink(place) {
    const text = `core${place.core}: ${place.text} at ${time(place.to, 1e6)}`;
    return link(text, () => this.goTo({ from: place.from, to: place.to, core: place.core }));
  }
  allPlaces(host) {
    const { list, left_out: left } = this.data.places;
    const made = element('details', {});
    const more = left ? `, and ${left} more that are only counted` : '';
    made.append(element('summary', {}, `What cores reported, by time (${list.length}${more})`));
    // Filled when it is opened: there may be many.
    made.addEventListener('toggle', () => {
      if (made.childElementCount > 1) return;
      const shown = list.slice(0, 1000);
      const lines = element('ul', { class: 'causes' });
      shown.forEach((place) => lines.append(element('li', {}, this.placeLink(place))));
      made.append(lines);
      if (list.length > shown.length) {
        made.append(element('p', { class: 'muted' }, `The first ${shown.length} of them.`));
      }
    });
    host.append(made);
  }

  details() {
    const ids = this.report.tasks.map((task) => task.id);
    if (!ids.length) return;
    this.vcpuHost = section('VCPU', 'vcpu');
    this.select = element('select', { 'aria-label': 'VCPU' });
    for (const task of this.report.tasks) {
      this.select.append(element('option', { value: task.id }, task.name));
    }
    this.select.addEventListener('change', () => this.choose(Number(this.select.value)));
    this.vcpuHost.append(this.select);
    const broken = this.report.tasks.find((task) => BROKEN.includes(task.verdict.word));
    this.choose((broken || this.report.tasks[0]).id);
  }
  choose(id) {
    if (this.chosen === id || !this.select) return;
    this.chosen = id;
    this.select.value = id;
    this.charts.forEach((chart) => chart.remove());
    if (this.none) this.none.remove();
    const vcpu = this.run.vcpus[id];
    const [view, goTo] = [() => this.view(), (stretch) => this.goTo(stretch)];
    this.charts = [errorChart, responseChart]
      .map((make) => make(this.vcpuHost, vcpu, view, goTo, this.run.end)).filter((it) => it);
    this.none = element('p', { class: 'muted' }, this.charts.length
      ? CHART_HELP
      : 'It has neither whole periods of its own nor jobs.');
    this.vcpuHost.append(this.none);
    for (const [task, row] of this.verdictRows) row.classList.toggle('chosen', task === id);
  }

  cores() {
    const host = section('Cores', 'cores');
    const all = Math.max(1, this.report.duration_ns);
    const alarms = this.report.cores.some((core) => core.causes && core.causes.enforced);
    const heads = [['core', 'text'], '', ...PARTS.map(([, name]) => swatch(name)), 'idle',
      'decisions'];
    const latency = this.report.dispatch ? this.report.dispatch.cores : [];
    if (latency.length) heads.push('dispatch p50', 'p99', 'longest');
    if (alarms) heads.push('alarms', 'longest late');
    const rows = this.report.cores.map((core, place) => {
      const parts = [...PARTS.map(([part]) => part), 'idle_ns'];
      const cells = [this.run.coreNames[place] || `core${core.core}`, shares(core, all),
        ...parts.map((part) => percent(core[part] / all)), String(core.decisions)];
      const of = latency.find((it) => it.core === core.core);
      const times = ['latency_p50_ns', 'latency_p99_ns', 'latency_max_ns'];
      if (latency.length) cells.push(...times.map((name) => (of ? time(of[name]) : null)));
      const late = core.causes && core.causes.enforced;
      if (alarms) cells.push(late ? String(late.count) : null, late ? time(late.longest_ns) : null);
      return cells;
    });
    host.append(table(heads, rows));
  }

  // How VCPUs fared on cores of uneven speed; as the closing table has it, which is judged nowhere.
  uneven() {
    const { fairness, tasks } = this.report;
    if (!fairness) return;
    const host = section('Uneven cores', 'uneven');
    const { classes } = fairness;
    const names = classes.map((_, place) => (
      classes.length === 2 ? ['fast', 'slow'][place] : `class${place}`));
    const plain = (value) => (value === null ? null : value.toFixed(3));
    const rate = (value) => (value === null ? null : Math.round(value).toLocaleString('en'));
    const heads = [['VCPU', 'text'], ...names.map((name) => `on ${name}`),
      ...names.map((name) => `IPS ${name}`), 'speedup', 'performance'];
    const rows = tasks.filter((task) => task.speed && task.speed.wanted_ns > 0).map((task) => {
      const { speed } = task;
      const most = speed.performance_at_most;
      return [task.name, ...speed.classes.map((it) => percent(it.time_ns / speed.wanted_ns)),
        ...speed.classes.map((it) => rate(it.ips)), plain(speed.speedup),
        speed.performance === null && most !== null ? `≤ ${plain(most)}` : plain(speed.performance)];
    });
    host.append(table(heads, rows));
    if (fairness.min_fairness !== null) {
      const least = this.run.vcpus[fairness.min_vcpu];
      host.append(element('p', {}, `Mean performance ${plain(fairness.throughput)}, least `
        + `${plain(fairness.min_fairness)}${least ? ` (${least.name})` : ''}, Uniformity `
        + `${plain(fairness.uniformity)}.`));
    }
    const said = classes.map((it, place) => `${names[place]}: ${percent(it.speed_milli / 1000)} of `
      + `the fastest, ${it.cores.map((core) => `core${core}`).join(', ')}`);
    host.append(element('p', { class: 'muted' }, `${said.join('; ')}. on: part of the time in `
      + 'which it had something to run; IPS: instructions, or units of progress, per second; '
      + 'performance: progress by that of equal sharing.'));
  }

  memory() {
    const { report, run } = this;
    const throttled = report.cores.some((core) => core.throttled_ns > 0);
    const sensing = report.sensing;
    if (!run.samples.at.length && !throttled && !report.memory && !sensing) return;
    const host = section('Memory', 'memory');
    const it = report.memory;
    if (it) {
      const cycles = it.latency_mean_cycles;
      const mean = cycles === null ? '' : `, mean latency ${cycles.toFixed(1)} cycles`;
      host.append(element('p', {}, `${it.requests.toLocaleString('en')} requests${mean}.`));
    }
    if (throttled) {
      const each = report.cores.filter((core) => core.throttled_ns > 0)
        .map((core) => `core${core.core} ${time(core.throttled_ns)}`);
      host.append(element('p', {}, `Throttled: ${each.join(', ')}.`));
    }
    if (sensing && sensing.sensor) host.append(element('p', {}, `Sensed by ${sensing.sensor}.`));
    for (const one of sensing ? sensing.reactions : []) {
      const [p50, p99, most] = ['p50', 'p99', 'max'].map((it) => time(one[`took_${it}_ns`]));
      host.append(element('p', {}, `${one.name} ${plural(one.count, 'time')}: p50 ${p50}, `
        + `p99 ${p99}, longest ${most}.`));
    }
    memoryCharts(host, run.samples, () => this.view(), (stretch) => this.goTo(stretch));
  }

  text() {
    const host = section('As printed', 'text');
    host.append(element('pre', { tabindex: 0, 'aria-label': 'The closing table' },
      this.data.words.table));
    this.data.notes.forEach((note) => host.append(element('p', { class: 'muted' }, note)));
    const params = Object.entries(this.report.params).map(([name, value]) => `${name}=${value}`);
    const seed = this.report.machine === 'sim' ? `, seed ${this.report.seed}` : '';
    host.append(element('p', { class: 'muted' }, `maracas ${this.report.version}, policy `
      + `${[this.report.policy, ...params].join(' ')}${seed}`));
  }

  restyle() {
    this.schedule.restyle();
    document.querySelectorAll('.key').forEach((key) => {
      if (key.dataset.vcpu) key.style.background = colorOf(Number(key.dataset.vcpu));
    });
  }
}

// The parts of a core's time, each with a look of its own: full, striped, crossed.
const PARTS = [['foreground_ns', 'foreground'], ['background_ns', 'background'],
  ['throttled_ns', 'throttled']];

// The head of a column, with the look of its part.
function swatch(name) {
  const box = element('span', { class: `swatch ${name}`, 'aria-hidden': 'true' });
  return [element('span', {}, box, name), ''];
}

// The parts of a core's time as a bar.
function shares(core, all) {
  const bar = element('div', { class: 'bar', 'aria-hidden': 'true' });
  for (const [part, name] of PARTS) {
    const made = element('span', { class: name });
    made.style.width = `${(core[part] / all) * 100}%`;
    bar.append(made);
  }
  return bar;
}
