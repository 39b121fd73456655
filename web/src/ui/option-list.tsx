import type { JSX } from "preact";
import { Icon } from "./icons";
import { groupsIn, type Option } from "./options";

/** The options of an open list, with a check beside the chosen one. */
export function Options(props: {
  options: readonly Option[];
  about: (option: Option) => object;
  chosen: (option: Option) => boolean;
}): JSX.Element {
  const { options, about, chosen } = props;
  return (
    <>
      {groupsIn(options).map(({ words, options }) => (
        <div key={words} role={words ? "group" : "presentation"} aria-label={words || undefined}>
          {words && (
            <div class="choices-group" aria-hidden="true">
              {words}
            </div>
          )}
          {options.map((option) => (
            <div key={option.value} {...about(option)} class="choices-item">
              <span class="cut grow">{option.label}</span>
              {chosen(option) && <Icon name="check" />}
            </div>
          ))}
        </div>
      ))}
    </>
  );
}
