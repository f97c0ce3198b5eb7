import assert from 'node:assert/strict';
import { test } from 'node:test';

import { metricOf } from '../../../assets/lib/metric.mjs';

const METRICS = { metrics: [{ name: 'slowdown' }, { name: 'data_wait' }] };

/** An app of which a view asks its metrics and findings. */
function appOf(run, view, findings = { findings: [] }) {
  return {
    view: { run, attempt: null, metric: null, finding: null, ...view },
    api: (name) => name, json: async (name) => (name === 'findings' ? findings : METRICS),
  };
}

const findings = { findings: [{ id: 'data_loader-0-6-20' }], metrics: { 'data_loader-0-6-20': 'data_wait' } };

test('the metric is that of the view, else that of the finding it names, else the default', async () => {
  assert.equal(await metricOf(appOf('a', { metric: 'slowdown', finding: 'data_loader-0-6-20' }, findings)), 'slowdown');
  assert.equal(await metricOf(appOf('a', { finding: 'data_loader-0-6-20' }, findings)), 'data_wait');
  assert.equal(await metricOf(appOf('a', { finding: 'data_loader-0-6-18' }, findings)), 'data_wait', 'its first step has moved');
  assert.equal(await metricOf(appOf('a', {}, findings)), null);
  assert.equal(await metricOf(appOf('a', { finding: 'gone-0-1-2' }, findings)), null);
  assert.equal(await metricOf(appOf('a', { metric: 'none such' })), null);
});
