/** Members of a collective: who arrived last and who waited. */
import { formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { button, table } from './dom.mjs';

/** The collective or send/receive that a slice is part of, null for none. Pure. */
export function instanceOf(slice) {
  if (slice?.wait) {
    const { group, seq, src, dst } = slice.wait;
    return { group, seq, src, dst };
  }
  const span = slice?.span;
  if (!span || slice.count > 1 || span.group === null || span.seq < 0) return null;
  const isPair = span.peer >= 0;
  const sends = /send/.test(span.name);
  return {
    group: span.group, seq: span.seq,
    src: isPair ? (sends ? slice.rank : span.peer) : -1,
    dst: isPair ? (sends ? span.peer : slice.rank) : -1,
  };
}

/** Members of a collective of the attempt on screen, in order of arrival. @returns {Promise<Object[]>} */
export async function loadMembers({ app, attempt }, instance, signal) {
  const { group, seq, src, dst } = instance;
  const answer = await app.json(app.api('timeline/collective', {
    attempt, group, seq, src: src >= 0 ? src : null, dst: dst >= 0 ? dst : null,
  }), signal);
  return answer.members;
}

/** A sentence on who arrived last. Pure. */
export function verdict(members) {
  if (!members.length) return 'No member recorded this collective.';
  const reason = members.find((member) => member.reason)?.reason;
  if (reason) return `Which rank arrived last is unknown: ${reason}.`;
  const last = members.find((member) => member.is_last);
  if (!last) return 'All members arrived at the same time.';
  const most = Math.max(...members.map((member) => member.wait_us ?? 0));
  return `Rank ${last.rank} arrived last: the others waited up to ${formatNs(most * 1e3)}, data moved in `
    + `${last.transfer_us === null ? 'an unknown time' : formatNs(last.transfer_us * 1e3)}.`;
}

/** @param {(member: Object) => void} go @param {(rank: number) => boolean} isCulprit */
export function membersTable(members, go, isCulprit) {
  const us = (value) => (value === null ? '' : formatNs(value * 1e3));
  return make('div', { class: 'scroll' },
    make('p', {}, verdict(members)),
    members.length ? table('members of the collective', ['rank', 'operation', 'waited', 'wait caused, all ranks'],
      members.slice(0, 64).map((member) => [
        button(`r${member.rank}`, () => go(member), { class: member.is_last ? (isCulprit(member.rank) ? 'late culprit' : 'late') : '' }),
        member.op, us(member.wait_us), us(member.wait_caused_us)])) : '');
}
