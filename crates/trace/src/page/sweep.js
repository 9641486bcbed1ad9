'use strict';
// The page of a sweep: figures, all points, and the sets behind the chosen one.

const DASHES = [[], [9, 5], [2, 4], [9, 4, 2, 4], [16, 5], [5, 3], [1, 3]];

class SweepPage {
  constructor(data) {
    this.data = data;
    this.chosen = null;
    document.getElementById('title').textContent = data.title;
    this.banner();
    this.figures();
    this.points();
    this.behind = section('Behind a point', 'behind');
    this.sets = element('div', { 'aria-live': 'polite' });
    this.behind.append(this.sets);
    this.sets.append(element('p', { class: 'muted' }, 'Choose a point in a figure or a share in '
      + 'the table: here are then the sets that failed, and the commands that run one again.'));
    const made = section('As it was run', 'meaning');
    made.append(element('pre', {}, data.meaning));
  }
  restyle() {}

  banner() {
    const { points, policies } = this.data;
    const sets = points.reduce((sum, point) => sum + point.policies[0].sets, 0);
    const box = element('div', { class: 'banner' });
    const always = policies.filter((_, place) => points.every(({ policies: all }) => (
      all[place].succeeded === all[place].sets)));
    const text = always.length ? `${always.join(', ')}: success on every set`
      : 'No policy succeeds on every set';
    box.append(element('strong', {}, text), `${plural(sets, 'task set')} at `
      + `${plural(points.length, 'point')} under ${policies.join(', ')}. Success: the policy `
      + 'admits the set, and no job misses its deadline. Intervals are of 95 % confidence.');
    document.getElementById('content').append(box);
  }

  figures() {
    const { figures } = this.data;
    if (!figures.length) return;
    const host = section('Figures', 'figures');
    host.append(element('p', { class: 'muted' }, 'Values stand below a figure for what is under '
      + 'the pointer; a click shows the sets behind that point, dragging zooms, a double click '
      + 'shows all again, a click on a name hides its line. What is counted per job has no value '
      + 'where the policy admits no set.'));
    figures.forEach((figure) => this.figure(host, figure));
  }
  figure(host, { title, along, share, lines, points }) {
    const xs = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))];
    xs.sort((a, b) => a - b);
    // Shares along end at 1 as those upwards do; both have a little room for the signs.
    const plain = (value) => String(+value.toPrecision(4));
    const series = lines.map((line, place) => ({
      name: line.name,
      color: () => colorOf(line.look ? line.look[0] : this.data.policies.indexOf(line.name)),
      points: null,
      // The later, the smaller: signs that stand in each other can all be seen.
      size: 8 + 4 * Math.min(lines.length - 1 - place, 5),
      dash: DASHES[(line.look ? line.look[1] : place) % DASHES.length],
      width: 2,
      spread: xs.map((x) => line.spread[line.points.findIndex(([it]) => it === x)]),
    }));
    const value = (line, x) => line.points.find(([it]) => it === x);
    const columns = [xs, ...lines.map((line) => xs.map((x) => {
      const found = value(line, x);
      return found ? found[1] : null;
    }))];
    const most = Math.max(0, ...lines.flatMap((line) => line.spread.flat()));
    const unit = (it) => (share ? `${plain(it * 100)} %` : plain(it));
    // Every point has a value of success, and its x; a figure may lack some of them.
    const place = (x) => points.find((it) => this.along(along, it) === x);
    const chart = new Chart(host, {
      title, columns, series, unit, height: 300,
      // A number for all loads has no sets of one point behind it.
      pick: (i) => { if (points.length) this.choose(place(xs[i]), true); },
      along: { label: along, value: plain, values: (_, splits) => splits.map(plain) },
      range: share ? [-0.03, 1.03] : (_, low) => [Math.min(0, low), most * 1.05 || 1],
    });
    if (points.length) chart.box.title = 'Click: the sets behind a point';
  }
  along(name, point) { return this.data.points[point].at[name]; }

  points() {
    const host = section('Points', 'points');
    const { points, policies } = this.data;
    const percent = ([share, low, high]) => `${(share * 100).toFixed(1)} % `
      + `(${(low * 100).toFixed(1)}..${(high * 100).toFixed(1)})`;
    const rows = points.map(({ name, policies: all }, place) => [name, ...all.map((it) => (
      link(percent(it.success), () => this.choose(place, true))))]);
    const made = table([['point', 'text'], ...policies], rows);
    this.rows = made.querySelectorAll('tbody tr');
    host.append(made);
    host.append(element('p', { class: 'muted' }, 'Share of sets that succeed.'));
  }

  // Shows the sets behind a point.
  choose(place, scroll) {
    if (place === undefined) return;
    this.chosen = place;
    this.rows.forEach((row, i) => row.classList.toggle('chosen', i === place));
    const { name, policies } = this.data.points[place];
    this.sets.replaceChildren(element('h3', {}, name));
    if (this.data.charges) {
      this.sets.append(element('p', { class: 'warn' }, 'The sweep charges overheads or leaves a '
        + 'margin, and these commands do not: what misses may be otherwise.'));
    }
    policies.forEach((it, i) => this.sets.append(this.failed(this.data.policies[i], it)));
    if (scroll) this.behind.scrollIntoView();
  }
  failed(policy, { sets, accepted, succeeded, failed }) {
    const count = sets - succeeded;
    const text = `${policy}: ${count ? `${count} of ${plural(sets, 'set')} failed`
      : `success on all ${plural(sets, 'set')}`}${accepted < sets ? `, ${sets - accepted} refused` : ''}`;
    if (!count) return element('p', { class: 'good' }, text);
    const made = element('details', {}, element('summary', {}, text));
    made.open = true;
    const rows = failed.map((it) => [String(it.set), it.file || String(it.seed),
      it.accepted ? `missed ${it.missed} of ${plural(it.released, 'job')}, late by up to `
        + `${time(it.tardiness_ns)}` : 'refused',
      element('pre', {}, it.commands.join('\n'))]);
    const heads = ['set', failed[0].file ? ['file', 'text'] : 'seed', ['why', 'text'],
      ['run it', 'text']];
    made.append(table(heads, rows));
    if (count > failed.length) {
      made.append(element('p', { class: 'muted' },
        `The first ${failed.length} are listed; runs.csv has all.`));
    }
    return made;
  }
}
