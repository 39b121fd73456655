/** The colour theme: the system's, or the one the user chose. */
import { computed, effect, signal } from "@preact/signals";
import { loadValue, saveValue } from "./storage";

export type Theme = "system" | "light" | "dark";

const KEY = "theme";
const systemDark = signal(false);

export const theme = signal<Theme>("system");
export const shownTheme = computed(() =>
  theme.value === "system" ? (systemDark.value ? "dark" : "light") : theme.value,
);

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  saveValue(KEY, chosen);
}

export function applyTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const update = () => {
    systemDark.value = dark.matches;
  };
  update();
  dark.addEventListener("change", update);
  theme.value = loadValue<Theme>(KEY, "system");
  effect(() => {
    document.documentElement.dataset.theme = shownTheme.value;
  });
}
