/** The script of a shared file: theme, timeline and heat map of the data written into the page. */
import { OfflineApp } from './lib/offline_app.mjs';
import { mountHeat } from './heat/offline_heat.mjs';
import { mount as mountTimeline } from './timeline/view.mjs';

const root = document.documentElement;
const prefersLight = matchMedia('(prefers-color-scheme: light)');
const follow = () => { root.dataset.theme = prefersLight.matches ? 'light' : 'dark'; };
follow();
prefersLight.addEventListener('change', follow);
document.getElementById('theme').addEventListener('click', () => {
  prefersLight.removeEventListener('change', follow);
  root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
});

const data = JSON.parse(document.getElementById('shared-data').textContent);
const app = new OfflineApp(data);

/** Draw one picture; one that fails says so and leaves the others. */
function picture(id, draw) {
  const place = document.getElementById(id);
  if (!place) return;
  try {
    draw(place);
  } catch (error) {
    place.textContent = `This picture could not be drawn: ${error.message}`;
    place.classList.add('failed');
    console.error(error);
  }
}

picture('shared-timeline', (place) => mountTimeline(place, app, { data: data.tile }));
picture('shared-heat', (place) => mountHeat(place, app, data));
