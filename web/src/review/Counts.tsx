import type { ChangedFile } from "../protocol";

export function Counts({ file }: { file: Pick<ChangedFile, "added" | "removed" | "binary"> }) {
  if (file.binary) return <span class="quiet small">binary</span>;
  return (
    <span class="counts mono">
      <span class="added-count">+{file.added}</span> <span class="removed-count">−{file.removed}</span>
    </span>
  );
}
