/** Images to send with a prompt, as data URIs. */
import { MAX_IMAGES } from "./form";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_BYTES = 5 * 1024 * 1024;

export const ACCEPTED = TYPES.join(",");

export interface Pictures {
  readonly images: readonly string[];
  /** Why files were skipped. */
  readonly problems: readonly string[];
}

/** The images plus as many of the files as fit. */
export async function withFiles(images: readonly string[], files: readonly File[]): Promise<Pictures> {
  const problems = files.flatMap((file) => problemWith(file) ?? []);
  const fitting = files.filter((file) => problemWith(file) === null);
  const room = MAX_IMAGES - images.length;
  if (fitting.length > room) problems.push(`A message can have at most ${MAX_IMAGES} images.`);
  const read = await Promise.all(fitting.slice(0, room).map(dataUri));
  return { images: [...images, ...read], problems };
}

function problemWith(file: File): string | null {
  if (!TYPES.includes(file.type)) return `${file.name} is not a supported image (PNG, JPEG, GIF or WebP).`;
  if (file.size > MAX_BYTES) return `${file.name} is larger than 5 MB.`;
  return null;
}

function dataUri(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`Cannot read ${file.name}.`));
    reader.readAsDataURL(file);
  });
}

export function filesIn(transfer: DataTransfer | null): File[] {
  return [...(transfer?.files ?? [])];
}
