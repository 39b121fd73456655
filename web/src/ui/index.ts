/** The components that all screens share. */
export { Button, LinkButton } from "./button";
export { Confirmation, confirm, Dialog } from "./dialog";
export { Field, Switch } from "./field";
export { Icon, type IconName } from "./icons";
export { Menu, type MenuItem } from "./menu";
export { Badge, Count, Empty, Key, Notice, Problem, Spinner, type Tone } from "./small";
export { type Tab, Tabs } from "./tabs";
export { toastError, Toasts, toast } from "./toast";
export { memo } from "./memo";
