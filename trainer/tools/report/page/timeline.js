// Draws the timeline of a traced step, one lane of bars per rank.
(() => {
  'use strict';

  const data = JSON.parse(document.getElementById('run-data').textContent).timelines;
  const kinds = {forward: 'forward', backward: 'backward', weights: 'backward, weights', message: 'communication', idle: 'idle', part: 'part of the step'};
  const left = 104;
  const right = 8;
  const row = 16;
  const time = (ms) => ms >= 1000 ? (ms / 1000).toPrecision(4) + ' s' : ms >= 1 ? ms.toPrecision(4) + ' ms' : (1000 * ms).toPrecision(3) + ' µs';

  class Timeline {
    constructor(figure) {
      this.data = data[Number(figure.dataset.number)];
      this.svg = figure.querySelector('svg');
      this.legend = figure.querySelector('.legend');
      this.view = {from: 0, to: this.data.length};
      this.used = [...new Set(this.data.lanes.flatMap((lane) => lane.spans.map((span) => span[3])))];
      this.followPointer();
      this.draw();  // immediately, for screenshots and printing
      new ResizeObserver(() => requestAnimationFrame(() => {
        if (this.svg.clientWidth !== this.width) this.draw();
      })).observe(figure);
    }
    at(ms) { return left + (ms - this.view.from) / (this.view.to - this.view.from) * (this.width - left - right); }
    back(place) { return this.view.from + (place - left) / (this.width - left - right) * (this.view.to - this.view.from); }
    draw() {
      this.width = this.svg.clientWidth;
      const shownWidth = Math.max(this.width, 200);
      const bottom = this.data.lanes.length * row + 4;
      this.svg.setAttribute('height', bottom + 20);
      this.svg.setAttribute('viewBox', `0 0 ${shownWidth} ${bottom + 20}`);
      const parts = [];
      this.data.lanes.forEach((lane, number) => {
        const y = number * row + 2;
        parts.push(`<text x="${left - 6}" y="${y + row / 2}" dy="0.3em" text-anchor="end">${lane.name}</text>`);
        for (const [from, to, , kind] of lane.spans) {
          if (to < this.view.from || from > this.view.to) continue;
          const x = Math.max(this.at(from), left);
          const width = Math.max(Math.min(this.at(to), shownWidth - right) - x, 0.6);
          parts.push(`<rect class="${kind}" x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${row - 4}"/>`);
        }
      });
      const ticks = Math.max(2, Math.floor((shownWidth - left) / 120));
      for (let tick = 0; tick <= ticks; ++tick) {
        const ms = this.view.from + (this.view.to - this.view.from) * tick / ticks;
        const x = this.at(ms).toFixed(1);
        const anchor = tick === 0 ? 'start' : tick === ticks ? 'end' : 'middle';
        parts.push(`<line class="axis" x1="${x}" x2="${x}" y1="${bottom}" y2="${bottom + 4}"/>`,
          `<text x="${x}" y="${bottom + 16}" text-anchor="${anchor}">${time(ms)}</text>`);
      }
      parts.push(`<rect class="zoom" y="0" height="${bottom}" width="0"/>`);
      this.svg.innerHTML = parts.join('');
      this.zoom = this.svg.querySelector('.zoom');
      this.read(null);
    }
    // Shows the details of a bar; null: the legend of colors.
    read(bar) {
      const item = (kind, text) => {
        const span = document.createElement('span');
        const swatch = document.createElement('i');
        swatch.style.background = getComputedStyle(this.svg.querySelector('.' + kind) || this.svg).fill;
        span.append(swatch, text);
        return span;
      };
      if (bar === null) {
        this.legend.replaceChildren(...this.used.map((kind) => item(kind, kinds[kind])));
      } else {
        const [from, to, name, kind] = bar.span;
        this.legend.replaceChildren(item(kind, `${bar.lane.name}: ${this.data.names[name]} (${kinds[kind]}), ${time(to - from)} from ${time(from)}`));
      }
    }
    barAt(event) {
      const box = this.svg.getBoundingClientRect();
      const lane = this.data.lanes[Math.floor((event.clientY - box.top - 2) / row)];
      if (!lane) return null;
      const ms = this.back(event.clientX - box.left);
      const slack = this.back(left + 1.5) - this.view.from;
      let best = null;  // the shortest bar there, as calls are nested
      for (const span of lane.spans) {
        if (span[0] - slack > ms || span[1] + slack < ms) continue;
        if (best === null || span[1] - span[0] < best[1] - best[0]) best = span;
      }
      return best === null ? null : {lane, span: best};
    }
    followPointer() {
      let dragFrom = null;
      const place = (event) => Math.min(Math.max(event.clientX - this.svg.getBoundingClientRect().left, left), this.width - right);
      this.svg.addEventListener('pointerdown', (event) => {
        if (event.pointerType !== 'mouse' || event.button !== 0) return;
        dragFrom = place(event);
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener('pointermove', (event) => {
        this.read(this.barAt(event));
        if (dragFrom === null) return;
        const [a, b] = [dragFrom, place(event)].sort((m, n) => m - n);
        this.zoom.setAttribute('x', a);
        this.zoom.setAttribute('width', b - a);
      });
      this.svg.addEventListener('pointerup', (event) => {
        if (dragFrom === null) return;
        const [a, b] = [dragFrom, place(event)].sort((m, n) => m - n);
        dragFrom = null;
        if (b - a > 6) this.view = {from: this.back(a), to: this.back(b)};
        this.draw();
      });
      this.svg.addEventListener('pointerleave', () => this.read(null));
      this.svg.addEventListener('dblclick', () => {
        this.view = {from: 0, to: this.data.length};
        this.draw();
      });
    }
  }
  document.querySelectorAll('.timeline').forEach((figure) => new Timeline(figure));
})();
