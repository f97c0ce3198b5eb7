/** The page Machines: how hosts differ, one host over time next to its ranks, what changed, what was unreadable. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { HostMap } from './host_map.mjs';
import { aboutMap, furthestCells, NO_SAMPLES } from './messages.mjs';
import { changesTable, furthestTable, hostLines, hostTable, unreadableList } from './panels.mjs';

const NEWS_MS = 2000;
const MOST_IN_TABLE = 8;  // with fewer hosts a table of values says more than colours
const PORTS = [
  ['nic_transmitted_bytes_total', 'InfiniBand: sent'], ['nic_received_bytes_total', 'InfiniBand: received'],
  ['nic_transmit_wait_ticks_total', 'InfiniBand: waited to send'], ['nic_link_downed_total', 'InfiniBand: link down'],
  ['nic_out_of_sequence_total', 'InfiniBand: out of sequence'], ['nic_symbol_errors_total', 'InfiniBand: symbol errors'],
  ['net_transmitted_bytes_total', 'network: sent'], ['net_received_bytes_total', 'network: received'],
  ['net_transmit_pause_frames_total', 'network: pauses sent (PFC)'], ['net_receive_pause_frames_total', 'network: pauses received (PFC)'],
  ['net_receive_drops_total', 'network: drops'], ['net_carrier_changes_total', 'network: carrier changes'],
];

/** @param {HTMLElement} place @param {Object} app */
export function mount(place, app) {
  const stop = new AbortController();
  const shown = { map: null, ports: null, host: null, port: null };
  const maps = new Map();  // section key -> HostMap
  const body = make('div', { class: 'machines' });
  place.classList.remove('machines');
  place.replaceChildren(body);
  body.append(sentence('status', 'Loading the machines.'));
  const sections = Object.fromEntries(['map', 'changes', 'host', 'ports', 'unreadable'].map((key) => [
    key, make('section', { class: 'panel', hidden: true })]));

  const hostUrl = (host) => app.api('machines/host', { attempt: app.view.attempt, host });
  const asked = () => ({ attempt: app.view.attempt, steps: app.view.steps?.join('..') ?? null });
  const hostOfRank = () => {
    const { hosts, ranks } = shown.map;
    const at = ranks.findIndex((of) => of.includes(app.view.rank));
    return at >= 0 ? hosts[at] : furthestCells(shown.map, 1)[0]?.host ?? hosts[0];
  };

  async function load(signal) {
    try {
      const { arrays, meta } = await app.arrays(app.api('machines', asked()), signal);
      if (signal.aborted) return;
      if (!meta.hosts.length) {
        body.replaceChildren(make('section', { class: 'panel' },
          NO_SAMPLES.map((text, i) => make('p', { class: 'quiet' }, i ? text : make('strong', {}, text)))));
        return;
      }
      if (!sections.map.isConnected) body.replaceChildren(...Object.values(sections));
      shown.map = { ...arrays, ...meta };
      showMap('map', 'Hosts and metrics', shown.map);
      await Promise.all([
        part(loadHost, 'host', 'One host over time'), part(loadChanges, 'changes', 'What changed'), part(loadPorts, 'ports', 'Hosts and ports'),
      ].map((load) => load(signal)));
    } catch (error) {
      if (error.name === 'AbortError') return;
      body.replaceChildren(cannotBeShown('Machines', error));
    }
  }

  /** One part of the page: its failure leaves the others. */
  const part = (load, key, title) => async (signal) => {
    if (sections[key].hidden && key === 'changes') {
      sections[key].hidden = false;
      fill(sections[key], [make('header', {}, make('h2', {}, title)), make('p', { class: 'quiet', role: 'status' }, 'Reading all samples.')]);
    }
    try {
      await load(signal);
    } catch (error) {
      if (error.name === 'AbortError') return;
      sections[key].hidden = false;
      fill(sections[key], [make('header', {}, make('h2', {}, title)), make('p', { role: 'alert' }, error.message)]);
    }
  };

  function choose(host) {
    const ranks = shown.map.ranks[shown.map.hosts.indexOf(host)] ?? [];
    shown.host = host;
    if (ranks.length) app.set({ rank: ranks[0] });
    markHost();
    if (app.has(hostUrl(host))) fetchHost.now();
  }

  function markHost() {
    for (const map of maps.values()) map.mark(shown.host);
  }

  function showMap(key, title, data, tools = []) {
    const section = sections[key];
    section.hidden = false;
    const head = make('header', {}, make('h2', {}, title), tools, make('span', { class: 'quiet' }, aboutMap(data)));
    if (data.num_hosts <= MOST_IN_TABLE) {
      maps.get(key)?.destroy();
      maps.delete(key);
      fill(section, [head, hostTable(data, choose)]);
      return;
    }
    let map = maps.get(key);
    if (!map) {
      section.replaceChildren(head);
      map = new HostMap(section, { label: `${title}, a cell for each; arrow keys move, Enter chooses the host`, choose });
      section.append(make('div', { class: 'machines-furthest' }));
      maps.set(key, map);
    }
    section.firstElementChild.replaceWith(head);
    section.querySelector('.machines-furthest').replaceChildren(furthestTable(data, choose));
    map.show(data);
    map.mark(shown.host);
  }

  async function loadHost(signal) {
    shown.host = shown.map.hosts.includes(shown.host) && app.view.rank === null ? shown.host : hostOfRank();
    markHost();
    const hosts = shown.map.hosts.filter((host) => app.has(hostUrl(host)));
    if (!hosts.includes(shown.host)) [shown.host] = hosts;
    const found = await app.json(hostUrl(shown.host), signal);
    if (signal.aborted) return;
    sections.host.hidden = false;
    fill(sections.host, hostLines(found, app, hosts, choose));
  }

  async function loadChanges(signal) {
    const { changes, is_part: isPart, unreadable } = await app.json(app.api('machines/changes', { attempt: app.view.attempt }), signal);
    if (signal.aborted) return;
    sections.changes.hidden = sections.unreadable.hidden = false;
    fill(sections.changes, changesTable(changes, isPart, app));
    fill(sections.unreadable, unreadableList(unreadable));
  }

  async function loadPorts(signal) {
    const names = new Set(shown.map.columns.map((column) => column.name));
    const url = (metric) => app.api('machines/ports', { ...asked(), metric });
    const there = PORTS.filter(([name]) => names.has(name) && app.has(url(name)));
    if (!there.length) return;
    if (!there.some(([name]) => name === shown.port)) [[shown.port]] = there;
    const { arrays, meta } = await app.arrays(url(shown.port), signal);
    if (signal.aborted || !meta.hosts.length) return;
    const picker = make('select', {
      'aria-label': 'Network counter', 'data-key': 'port', on: { change: (event) => { shown.port = event.target.value; fetcher.now(); } },
    }, there.map(([name, title]) => make('option', { value: name, selected: name === shown.port }, title)));
    showMap('ports', 'Hosts and ports', { ...arrays, ...meta }, [picker]);
  }

  const fetcher = makeFetcher(load, NEWS_MS);
  const fetchHost = makeFetcher((signal) => loadHost(signal).catch(() => {}), NEWS_MS);
  let key = JSON.stringify([asked(), app.view.rank]);
  const follow = () => {
    const next = JSON.stringify([asked(), app.view.rank]);
    if (next === key) return;
    const isRankOnly = JSON.parse(next)[0].steps === JSON.parse(key)[0].steps && JSON.parse(next)[0].attempt === JSON.parse(key)[0].attempt;
    key = next;
    if (isRankOnly && shown.map?.hosts.length) fetchHost.now();
    else fetcher.now();
  };
  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      fetcher.stop();
      fetchHost.stop();
      for (const map of maps.values()) map.destroy();
    },
  };
}

/** Replace what an element holds; what had the focus keeps it, by its data-key. */
function fill(element, content) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const open = new Set([...element.querySelectorAll('details[open]')].map((one) => one.dataset.key));
  element.replaceChildren(...content);
  for (const one of element.querySelectorAll('details')) if (open.has(one.dataset.key)) one.open = true;
  if (focused) [...element.querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
}
