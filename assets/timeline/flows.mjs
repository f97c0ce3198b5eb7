/** Follows a send, receive or collective from one member to the next, and back. */
import { COMM } from './lanes/tile.mjs';
import { instanceOf, loadMembers } from './panels/members.mjs';

/** The member after `rank`, in order of arrival, latest first. Pure. */
export function nextMember(members, rank) {
  const order = [...members].sort((a, b) => b.aligned_start_ns - a.aligned_start_ns || a.rank - b.rank);
  if (!order.length) return null;
  const here = order.findIndex((member) => member.rank === rank);
  const next = order[(here + 1) % order.length];
  return next.rank === rank ? null : next;
}

export class Flows {
  constructor(timeline) {
    this.timeline = timeline;
    this.history = [];
  }

  /** Go to the next member. */
  async forth() {
    const { selected } = this.timeline.shown;
    const instance = instanceOf(selected);
    if (!instance) return;
    const members = await loadMembers(this.timeline, instance);
    const member = nextMember(members, selected.rank);
    if (member) this.go(member, instance);
  }

  /** Go back to the slice before. */
  back() {
    const slice = this.history.pop();
    if (slice) this.timeline.goTo(slice);
  }

  /** Go to a member's part of a collective. */
  go(member, instance) {
    const { selected } = this.timeline.shown;
    if (selected) this.history.push(selected);
    const begin = member.aligned_start_ns ?? member.start_ns;
    this.timeline.goTo({
      rank: member.rank, begin, end: member.aligned_end_ns ?? begin + 1, row: COMM, instance,
    });
  }
}
