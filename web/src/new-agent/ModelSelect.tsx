import { useState } from "preact/hooks";

import type { KnownModel } from "../protocol";
import { Combobox } from "../ui/combobox";
import type { Option } from "../ui/options";
import { visibleLine } from "../visible-text";
import { modelName } from "./form";
import { ownModels } from "./own-models";

/** A list of known models, that also takes any other. `none`: what holds without a choice. */
export function ModelSelect({
  none,
  models,
  chosen,
  choose,
  ...field
}: {
  none: string;
  models: readonly KnownModel[];
  chosen: string;
  choose: (model: string) => void;
}) {
  const [own] = useState(ownModels);
  const recent: Option[] = own.map((name) => ({ value: name, label: visibleLine(name), group: "Recently used" }));
  const known: Option[] = models
    .filter((model) => !own.includes(modelName(model)))
    .map((model) => ({ value: modelName(model), label: visibleLine(model.model), group: visibleLine(model.provider) }));
  return <Combobox {...field} options={[...recent, ...known]} value={chosen} change={choose} placeholder={none} />;
}
