/** Entry of a shared file: theme, pages, timeline and heat map, drawn from the data that the file contains. */
import { OfflineApp } from './lib/offline_app.mjs';
import { mount as mountData } from './data/view.mjs';
import { mount as mountExperts } from './experts/view.mjs';
import { mount as mountGoodput } from './goodput/view.mjs';
import { mountHeat } from './heat/offline_heat.mjs';
import { toast } from './lib/page/dialogs.mjs';
import { mount as mountMachineChanges } from './machines/telling.mjs';
import { mount as mountMachines } from './machines/view.mjs';
import { mount as mountMfu } from './mfu/view.mjs';
import { mount as mountRoofline } from './roofline/view.mjs';
import { mount as mountSelftest } from './selftest/view.mjs';
import { mount as mountStartup } from './startup/view.mjs';
import { stuckPanels } from './stuck/page.mjs';
import { mount as mountTimeline } from './timeline/view.mjs';
import { mount as mountWhatIf } from './whatif/view.mjs';

const root = document.documentElement;
const prefersLight = matchMedia('(prefers-color-scheme: light)');
const followSystem = () => { root.dataset.theme = prefersLight.matches ? 'light' : 'dark'; };
followSystem();
prefersLight.addEventListener('change', followSystem);
document.getElementById('theme').addEventListener('click', () => {
  prefersLight.removeEventListener('change', followSystem);
  root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
});

const data = JSON.parse(document.getElementById('shared-data').textContent);
const app = new OfflineApp(data);
app.addEventListener('open', ({ detail }) => {
  if (detail) toast(detail);
  else document.getElementById('shared-timeline')?.scrollIntoView({ block: 'center' });
});

/** Draw one picture. If it fails it shows why, and the others are still drawn. */
function picture(id, draw) {
  const element = document.getElementById(id);
  if (!element) return;
  try {
    draw(element);
  } catch (error) {
    element.textContent = `This picture could not be drawn: ${error.message}`;
    element.classList.add('failed');
    console.error(error);
  }
}

picture('shared-stuck', (element) => element.replaceChildren(
  ...stuckPanels(data.stuck, app, { shownAbove: data.finding }).map(({ build }) => build())));
picture('shared-machines', (element) => mountMachines(element, app));
picture('shared-machine-changes', (element) => mountMachineChanges(element, app));
picture('shared-data-loading', (element) => mountData(element, app));
picture('shared-experts', (element) => mountExperts(element, app));
picture('shared-whatif', (element) => mountWhatIf(element, app));
picture('shared-mfu', (element) => mountMfu(element, app));
picture('shared-roofline', (element) => mountRoofline(element, app));
picture('shared-startup', (element) => mountStartup(element, app));
picture('shared-goodput', (element) => mountGoodput(element, app));
picture('shared-selftest', (element) => mountSelftest(element, app));
picture('shared-timeline', (element) => mountTimeline(element, app, { data: data.tile }));
picture('shared-heat', (element) => mountHeat(element, app, data));
