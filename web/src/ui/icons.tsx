/** Line icons on a grid of 24. */
import type { JSX } from "preact";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  inbox: "M3 13h5l1.5 3h5L16 13h5M3 13l3-8h12l3 8v6H3z",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 20.5h4",
  bellOff: "M4 4l16 16M6.5 9A6 6 0 0 0 6 11v5l-1.5 2h12M9 5.8A6 6 0 0 1 18 11v3M10 20.5h4",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20",
  check: "M5 12.5l4.5 4.5L19 7.5",
  checkCircle: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM8 12.5l2.7 2.7L16 9.5",
  cross: "M6 6l12 12M18 6L6 18",
  stop: "M7 7h10v10H7z",
  play: "M8 5.5v13l10-6.5z",
  pause: "M9 6v12M15 6v12",
  retry: "M4.5 12a7.5 7.5 0 1 0 2.4-5.5L4.5 9M4.5 4.5V9H9",
  fork: "M7 4v6a4 4 0 0 0 4 4h2a4 4 0 0 1 4 4v2M7 10v10M4.5 6.5L7 4l2.5 2.5",
  branch: "M7 8v8M7 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM7 20a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM17 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM17 10c0 4-6 3-9 6",
  download: "M12 4v11M7.5 11L12 15.5 16.5 11M5 20h14",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 13h4",
  pencil: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  dots: "M12 6a.9.9 0 1 0 0-1.8.9.9 0 0 0 0 1.8zM12 12.9a.9.9 0 1 0 0-1.8.9.9 0 0 0 0 1.8zM12 19.8a.9.9 0 1 0 0-1.8.9.9 0 0 0 0 1.8z",
  down: "M6 9.5l6 6 6-6",
  up: "M6 14.5l6-6 6 6",
  right: "M9.5 6l6 6-6 6",
  left: "M14.5 6l-6 6 6 6",
  arrowDown: "M12 5v14M6.5 13.5L12 19l5.5-5.5",
  send: "M5 12h13M12.5 6l6 6-6 6",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-2.5 4 3.5M15.5 9.5v.1",
  tool: "M14 6.5a4 4 0 0 0-5.3 5L4 16.2 7.8 20l4.7-4.7a4 4 0 0 0 5-5.3L15 12.5 11.5 9z",
  terminal: "M4 5h16v14H4zM7.5 9.5l3 2.5-3 2.5M13 15h3.5",
  file: "M7 3.5h7l4 4V20.5H7zM14 3.5v4h4",
  folder: "M3.5 6h6l2 2.5h9V19h-17z",
  brain: "M12 5.5a3 3 0 0 0-5.5 1.2A3 3 0 0 0 5 12a3 3 0 0 0 1.8 5A3 3 0 0 0 12 18.5zM12 5.5a3 3 0 0 1 5.5 1.2A3 3 0 0 1 19 12a3 3 0 0 1-1.8 5A3 3 0 0 1 12 18.5z",
  alert: "M12 4L21 19.5H3zM12 10v4.5M12 17v.1",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5.5M12 7.5v.1",
  question: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM9.5 9.5a2.5 2.5 0 1 1 3.7 2.2c-.8.45-1.2.9-1.2 1.8M12 16.7v.1",
  hand: "M7.5 12.5V7a1.5 1.5 0 0 1 3 0v4V5.5a1.5 1.5 0 0 1 3 0V11V6.5a1.5 1.5 0 0 1 3 0V13c0 4-2 7-5.5 7-3 0-4.2-1.7-6.5-5.5a1.5 1.5 0 0 1 2.5-1.6z",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5.2l3.3 2",
  shield: "M12 3.5l7 2.5v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6z",
  bolt: "M13 3L5.5 13.5H11L10 21l8-11h-5.5z",
  history: "M4.5 12a7.5 7.5 0 1 0 2.4-5.5L4.5 9M4.5 4.5V9H9M12 8v4.5l3 1.5",
  gear: "M12 15.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM12 3v2.5M12 18.5V21M3 12h2.5M18.5 12H21M5.6 5.6l1.8 1.8M16.6 16.6l1.8 1.8M5.6 18.4l1.8-1.8M16.6 7.4l1.8-1.8",
  diff: "M5 5h14v14H5zM12 8v4M10 10h4M10 15.5h4",
  columns: "M4 5h16v14H4zM12 5v14",
  list: "M8.5 6.5H20M8.5 12H20M8.5 17.5H20M4.5 6.5v.1M4.5 12v.1M4.5 17.5v.1",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2.5V5M12 19v2.5M2.5 12H5M19 12h2.5M5.3 5.3L7 7M17 17l1.7 1.7M5.3 18.7L7 17M17 7l1.7-1.7",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  keyboard: "M3 6.5h18v11H3zM7 10v.1M10.5 10v.1M14 10v.1M17.5 10v.1M8 14h8",
  link: "M10 14a4 4 0 0 0 6 .4l2.5-2.5a4 4 0 0 0-5.6-5.6L11.5 7.7M14 10a4 4 0 0 0-6-.4l-2.5 2.5a4 4 0 0 0 5.6 5.6l1.4-1.4",
  copy: "M9 9h10.5v10.5H9zM5.5 15H4.5V4.5H15v1",
  mail: "M3.5 6h17v12.5h-17zM3.5 7l8.5 6.5L20.5 7",
  flag: "M6 21V4M6 5h11l-2 4 2 4H6",
  todo: "M4 6.5l1.5 1.5L8.5 5M4 13l1.5 1.5 3-3M12 7h8M12 13.5h8M12 19h8M5.5 19h2",
  phone: "M8 3h8v18H8zM11 18h2",
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
  rook: "M6 20.5h12M7.5 20.5l1-9h7l1 9M6.5 3.5v5l2 3h7l2-3v-5h-2.7V6h-2V3.5h-1.6V6h-2V3.5z",
} as const;

export type IconName = keyof typeof PATHS;

/** Hidden from screen readers, because there is always text beside it. */
export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
