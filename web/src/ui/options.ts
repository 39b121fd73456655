/** What a list offers. */
export interface Option {
  readonly value: string;
  readonly label: string;
  /** Options with the same words here stand together under them. */
  readonly group?: string;
  readonly disabled?: boolean;
}

export interface OptionGroup {
  readonly words: string;
  readonly options: readonly Option[];
}

/** The options in groups, in the order in which they come first. */
export function groupsIn(options: readonly Option[]): readonly OptionGroup[] {
  const groups = new Map<string, Option[]>();
  for (const option of options) {
    const words = option.group ?? "";
    groups.set(words, [...(groups.get(words) ?? []), option]);
  }
  return [...groups].map(([words, options]) => ({ words, options }));
}

/** The options that have all of the words in their label or group. */
export function matching(options: readonly Option[], typed: string): readonly Option[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return options.filter(({ label, group = "" }) => {
    const text = `${group} ${label}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
