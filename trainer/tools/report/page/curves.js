// Draws the curves as inline SVG, in plain JavaScript without libraries.
(() => {
  'use strict';

  const run = JSON.parse(document.getElementById('run-data').textContent);
  const smoothing = document.getElementById('smoothing');
  const smoothingSteps = document.getElementById('smoothing-steps');
  const logX = document.getElementById('log-x');
  const resetZoom = document.getElementById('reset-zoom');
  const showMarks = document.getElementById('show-marks');
  const hidden = new Set();  // hidden runs
  const margin = {left: 58, right: 14, top: 8, bottom: 24};
  const whole = {from: run.first_step, to: Math.max(run.last_step, run.first_step + 1)};
  const view = {...whole};  // the steps shown, the same in every chart

  // ---- number formats
  const units = (value, base, names) => {
    let unit = 0;
    let size = Math.abs(value);
    while (size >= base && unit + 1 < names.length) { size /= base; ++unit; }
    return [value < 0 ? -size : size, names[unit]];
  };
  const trim = (value, digits) => String(Number(value.toPrecision(digits)));
  const formats = {
    plain: (value) => {
      const size = Math.abs(value);
      if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value.toPrecision(3)).toExponential().replace('e+', 'e');
      return trim(value, 5);
    },
    count: (value) => { const [n, unit] = units(value, 1000, ['', 'k', 'M', 'B', 'T']); return trim(n, 4) + unit; },
    bytes: (value) => { const [n, unit] = units(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']); return trim(n, 4) + ' ' + unit; },
    percent: (value) => trim(100 * value, 3) + '%',
  };
  const grouped = (step) => step.toLocaleString('en-US');

  // ---- axes
  const logTicks = (low, high) => {
    const few = 4;
    for (const digits of [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      const ticks = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
        for (const digit of digits) {
          const tick = Number(`${digit}e${power}`);
          if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
        }
      }
      if (ticks.length >= few) return ticks;
    }
    return linearTicks(low, high, 5);
  };
  const linearTicks = (low, high, count, base) => {
    const rough = (high - low) / count;
    if (!(rough > 0)) return [low];
    let power = 10 ** Math.floor(Math.log10(rough));
    let steps = [1, 2, 5, 10];
    if (base === 1024 && rough >= 1) {
      power = 2 ** Math.floor(Math.log2(rough));
      steps = [1, 2];
    }
    const step = power * steps.find((size) => size * power >= rough * 0.999);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
    return ticks;
  };
  const axis = (low, high, from, to, log) => {
    const map = log ? Math.log : (value) => value;
    const unmap = log ? Math.exp : (value) => value;
    const [a, b] = [map(low), map(high)];
    const scale = b === a ? 0 : (to - from) / (b - a);
    return {
      at: (value) => from + (map(value) - a) * scale,
      back: (place) => unmap(scale === 0 ? a : a + (place - from) / scale),
    };
  };

  // Exponential moving average over `window` steps, for any spacing of points; shorter at the
  // beginning, where the loss falls quickly.
  const smooth = (series, window) => {
    if (!(window > 0)) return series.y;
    let sum = 0;
    let weight = 0;  // weight of `sum`, for bias correction at the start
    return series.x.map((x, i) => {
      const value = series.mean[i];
      if (value === null) return null;
      const memory = Math.min(window, 1 + 0.1 * (x - series.x[0]));
      const keep = Math.exp(-(i === 0 ? 1 : x - series.x[i - 1]) / memory);
      sum = keep * sum + (1 - keep) * value;
      weight = keep * weight + (1 - keep);
      return sum / weight;
    });
  };
  const windowSteps = () => {
    const part = Number(smoothing.value) / 100;
    if (part === 0) return 0;
    const longest = Math.max((whole.to - whole.from) / 5, 2);
    return Math.exp(part * Math.log(longest + 1)) - 1;
  };

  // ---- one chart
  const color = (name) => `var(--${name})`;
  const charts = [];
  class Chart {
    constructor(curve) {
      this.curve = curve;
      this.figure = document.createElement('figure');
      this.figure.className = curve.wide ? 'chart wide' : 'chart';
      this.figure.innerHTML =
        '<figcaption><strong></strong><span class="legend"></span></figcaption><svg role="img"></svg>';
      this.figure.querySelector('strong').textContent = curve.title;
      this.legend = this.figure.querySelector('.legend');
      this.svg = this.figure.querySelector('svg');
      this.svg.setAttribute('aria-label', curve.title + ' over the steps');
      this.logY = curve.log_y;
      if (curve.series.every((series) => series.y.every((y) => y === null || y > 0))) this.addLogY();
      this.followPointer();
    }
    addLogY() {
      const label = document.createElement('label');
      label.className = 'log-y';
      label.innerHTML = '<input type="checkbox"> log';
      label.firstChild.checked = this.logY;
      label.firstChild.addEventListener('change', (event) => { this.logY = event.target.checked; this.draw(); });
      this.figure.querySelector('figcaption').append(label);
    }
    series() { return this.curve.series.filter((series) => !hidden.has(series.run)); }
    lines() {  // lines to draw: {name, x, y, color, width, faint}
      const lines = [];
      for (const series of this.series()) {
        const window = series.smooth ? windowSteps() : 0;
        const stroke = color(series.color);
        if (window > 0) lines.push({...series, stroke, width: 1, faint: true});
        lines.push({...series, y: smooth(series, window), raw: window > 0 ? series.y : null, stroke, width: 1.75, dots: series.x.length <= 60});
      }
      return lines;
    }
    draw() {
      const width = Math.max(this.svg.clientWidth, 200);
      const height = this.curve.wide ? Math.min(340, Math.max(220, width * 0.5)) : 210;
      this.svg.setAttribute('height', height);
      this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
      const right = width - margin.right;
      const bottom = height - margin.bottom;
      const lines = this.lines();
      let low = Infinity;
      let high = -Infinity;
      for (const line of lines) {
        line.x.forEach((x, i) => {
          const y = line.y[i];
          if (y === null || x < view.from || x > view.to) return;
          low = Math.min(low, y);
          high = Math.max(high, y);
        });
      }
      if (!(low <= high)) [low, high] = [0, 1];
      if (this.curve.from_zero && !this.logY) low = Math.min(low, 0);
      if (low === high) [low, high] = low === 0 ? [0, 1] : low > 0 ? [low * 0.9, high * 1.1] : [low * 1.1, high * 0.9];
      const pad = this.logY ? (high / low) ** 0.04 : (high - low) * 0.05;
      if (this.logY) { low /= pad; high *= pad; } else { if (low !== 0) low -= pad; high += pad; }
      const x = axis(Math.max(view.from, logX.checked ? 1 : view.from), view.to, margin.left, right, logX.checked);
      const y = axis(low, high, bottom, margin.top, this.logY);
      this.place = {x, y, right, bottom, lines};
      const format = formats[this.curve.format];
      const parts = [];
      const base = this.curve.format === 'bytes' ? 1024 : 10;
      for (const tick of this.logY ? logTicks(low, high) : linearTicks(low, high, 5, base)) {
        const at = y.at(tick).toFixed(1);
        parts.push(`<line class="grid" x1="${margin.left}" x2="${right}" y1="${at}" y2="${at}"/>`,
          `<text x="${margin.left - 7}" y="${at}" dy="0.34em" text-anchor="end">${format(tick)}</text>`);
      }
      const across = Math.max(2, Math.floor((right - margin.left) / 90));
      let free = -Infinity;  // labels must not overlap
      const stepTicks = logX.checked ? logTicks(Math.max(view.from, 1), view.to) : linearTicks(view.from, view.to, across);
      for (const tick of stepTicks) {
        if (tick !== Math.round(tick)) continue;
        const at = x.at(tick);
        const label = formats.count(tick);
        if (at - 3.5 * label.length < free) continue;
        free = at + 3.5 * label.length + 8;
        parts.push(`<line class="axis" x1="${at.toFixed(1)}" x2="${at.toFixed(1)}" y1="${bottom}" y2="${bottom + 4}"/>`,
          `<text x="${at.toFixed(1)}" y="${bottom + 16}" text-anchor="middle">${label}</text>`);
      }
      parts.push(`<line class="axis" x1="${margin.left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`);
      for (const mark of marks()) {
        if (mark.step < view.from || mark.step > view.to) continue;
        const at = x.at(Math.max(mark.step, 1)).toFixed(1);
        if (mark.kind === 'checkpoint') parts.push(`<path class="mark checkpoint" d="M${at} ${bottom - 7}l3.5 7h-7z"/>`);
        else parts.push(`<line class="mark ${mark.kind}" x1="${at}" x2="${at}" y1="${margin.top}" y2="${bottom}"/>`);
      }
      // An inner svg clips its contents.
      const box = `${margin.left - 4} ${margin.top - 4} ${right - margin.left + 8} ${bottom - margin.top + 6}`;
      const [bx, by, bw, bh] = box.split(' ');
      parts.push(`<svg x="${bx}" y="${by}" width="${bw}" height="${bh}" viewBox="${box}">`);
      for (const line of lines) parts.push(this.path(line));
      for (const series of this.series()) parts.push(this.broken(series));
      parts.push('</svg>');
      parts.push(`<rect class="zoom" y="${margin.top}" height="${bottom - margin.top}" width="0"/><g class="hover"></g>`);
      this.svg.innerHTML = parts.join('');
      this.hover = this.svg.querySelector('.hover');
      this.zoom = this.svg.querySelector('.zoom');
      this.read(null);
    }
    path(line) {
      const {x, y} = this.place;
      let d = '';
      let dots = '';
      let pen = 'M';
      line.x.forEach((step, i) => {
        // One point beyond each edge, so that a zoomed curve reaches the edges.
        const next = line.x[i + 1];
        const before = line.x[i - 1];
        const outside = (step < view.from && !(next >= view.from)) || (step > view.to && !(before <= view.to));
        if (line.y[i] === null || outside) { pen = 'M'; return; }
        const px = x.at(Math.max(step, logX.checked ? 1 : step)).toFixed(1);
        const py = y.at(line.y[i]).toFixed(1);
        d += pen + px + ' ' + py;
        pen = 'L';
        if (line.dots && step >= view.from && step <= view.to) dots += `<circle cx="${px}" cy="${py}" r="2" fill="${line.stroke}"/>`;
      });
      return `<path class="curve" d="${d}" stroke="${line.stroke}" stroke-width="${line.width}"${line.dash ? ' stroke-dasharray="5 3"' : ''}${line.faint ? ' opacity="0.3"' : ''}/>` + dots;
    }
    // Small flags on the axis where the value was not finite.
    broken(series) {
      return series.x.map((step, i) => {
        if (series.y[i] !== null || step < view.from || step > view.to) return '';
        const at = this.place.x.at(Math.max(step, 1));
        return `<path class="broken" d="M${at.toFixed(1)} ${this.place.bottom - 9}l5 9h-10z"><title>not finite</title></path>`;
      }).join('');
    }
    // Shows the values at a step; null: the last ones in view.
    read(step) {
      const format = formats[this.curve.format];
      const {x, y, bottom} = this.place;
      const items = [];
      let drawn = '';
      if (step !== null) {
        const at = x.at(Math.max(step, logX.checked ? 1 : step)).toFixed(1);
        drawn = `<line class="hair" x1="${at}" x2="${at}" y1="${margin.top}" y2="${bottom}"/>`;
      }
      for (const line of this.place.lines) {
        if (line.faint || line.x.length === 0) continue;
        const i = nearest(line.x, step === null ? view.to : step);
        const value = line.y[i];
        let text = value === null ? 'not finite' : format(value);
        if (line.raw && this.curve.wide) text += ` (raw ${line.raw[i] === null ? 'not finite' : format(line.raw[i])})`;
        items.push([line.name, text, line.stroke, line.dash]);
        if (step !== null && value !== null) {
          drawn += `<circle cx="${x.at(Math.max(line.x[i], logX.checked ? 1 : line.x[i])).toFixed(1)}" cy="${y.at(value).toFixed(1)}" r="3.5" fill="${line.stroke}"/>`;
        }
      }
      this.hover.innerHTML = drawn;
      this.legend.replaceChildren(...items.map(([name, value, stroke, dash]) => {
        const item = document.createElement('span');
        const swatch = document.createElement('i');
        swatch.style.background = stroke;
        swatch.style.color = stroke;
        swatch.classList.toggle('dash', dash);
        item.append(swatch, (name ? name + ' ' : '') + value);
        return item;
      }));
      if (step !== null) {
        const item = document.createElement('span');
        const near = marks().filter((one) => Math.abs(x.at(Math.max(one.step, 1)) - x.at(Math.max(step, 1))) < 4);
        const texts = [...new Set(near.map((one) => one.text))].slice(0, 3);
        item.className = 'step';
        item.textContent = ['step ' + grouped(step), ...texts].join(' · ');
        this.legend.append(item);
      }
    }
    followPointer() {
      let dragFrom = null;
      const stepAt = (event) => {
        const place = event.clientX - this.svg.getBoundingClientRect().left;
        const inside = Math.min(Math.max(place, margin.left), this.place.right);
        return Math.min(Math.max(Math.round(this.place.x.back(inside)), Math.ceil(view.from)), Math.floor(view.to));
      };
      const snapped = (step) => {
        const series = this.series();
        return series.length === 0 || series[0].x.length === 0 ? step : series[0].x[nearest(series[0].x, step)];
      };
      this.svg.addEventListener('pointerdown', (event) => {
        if (event.pointerType === 'mouse' && event.button === 0) {
          dragFrom = stepAt(event);
          this.svg.setPointerCapture(event.pointerId);
        }
        readAll(snapped(stepAt(event)));
      });
      this.svg.addEventListener('pointermove', (event) => {
        const step = stepAt(event);
        readAll(snapped(step));
        if (dragFrom === null) return;
        const [a, b] = [dragFrom, step].sort((m, n) => m - n).map((one) => this.place.x.at(Math.max(one, 1)));
        this.zoom.setAttribute('x', a);
        this.zoom.setAttribute('width', b - a);
      });
      this.svg.addEventListener('pointerup', (event) => {
        if (dragFrom === null) return;
        const [from, to] = [dragFrom, stepAt(event)].sort((m, n) => m - n);
        dragFrom = null;
        if (to - from >= 2 && this.place.x.at(Math.max(to, 1)) - this.place.x.at(Math.max(from, 1)) > 6) show(from, to);
        else this.zoom.setAttribute('width', 0);
      });
      this.svg.addEventListener('pointerleave', () => readAll(null));
      this.svg.addEventListener('dblclick', () => show(whole.from, whole.to));
    }
  }

  const nearest = (ascending, value) => {
    let low = 0;
    let high = ascending.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ascending[middle] < value) low = middle + 1; else high = middle;
    }
    return low > 0 && value - ascending[low - 1] < ascending[low] - value ? low - 1 : low;
  };
  const marks = () => showMarks.checked ? run.marks.filter((mark) => !hidden.has(mark.run)) : [];
  const readAll = (step) => charts.forEach((chart) => chart.read(step));
  const drawAll = () => {
    const window = windowSteps();
    smoothingSteps.textContent = window > 0 ? `${Math.max(1, Math.round(window)).toLocaleString('en-US')} steps` : 'off';
    charts.forEach((chart) => chart.draw());
  };
  const show = (from, to) => {
    view.from = from;
    view.to = to;
    resetZoom.hidden = from === whole.from && to === whole.to;
    drawAll();
  };

  const home = document.getElementById('charts');
  for (const curve of run.curves) {
    const chart = new Chart(curve);
    charts.push(chart);
    home.append(chart.figure);
  }
  if (run.runs.length > 1) {
    const choice = document.getElementById('runs');
    choice.hidden = false;
    run.runs.forEach((one, number) => {
      const label = document.createElement('label');
      const box = document.createElement('input');
      box.type = 'checkbox';
      box.checked = true;
      box.addEventListener('change', () => {
        if (box.checked) hidden.delete(number); else hidden.add(number);
        drawAll();
      });
      const swatch = document.createElement('i');
      swatch.style.background = color(one.color);
      label.append(box, swatch, one.name);
      choice.append(label);
    });
  }
  if (charts.length === 0) {
    home.textContent = 'No steps recorded yet.';
    home.className = 'note';
  }
  smoothing.addEventListener('input', drawAll);
  logX.addEventListener('change', drawAll);
  showMarks.addEventListener('change', drawAll);
  resetZoom.addEventListener('click', () => show(whole.from, whole.to));
  let drawnWidth = 0;
  const fit = () => {
    if (home.clientWidth === drawnWidth) return;  // drawing changes the height
    drawnWidth = home.clientWidth;
    drawAll();
  };
  fit();  // immediately, for screenshots and printing
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(home);
})();
