import { useSignal } from "@preact/signals";
import type { Picture } from "../protocol";
import { Dialog } from "../ui";
import "./pictures.css";

const SHOWABLE = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/=\s]*$/;

export function Pictures({ images }: { images: readonly Picture[] | undefined }) {
  const shown = useSignal<string | null>(null);
  if (!images?.length) return null;
  return (
    <div class="pictures">
      {images.map((image, at) => {
        const address = addressOf(image);
        const name = `Image ${at + 1}`;
        if (!address) {
          return (
            <span key={at} class="badge">
              {name}: cannot be shown
            </span>
          );
        }
        return (
          <button
            key={at}
            type="button"
            class="picture"
            aria-label={`Enlarge ${name}`}
            onClick={() => (shown.value = address)}
          >
            <img src={address} alt={name} />
          </button>
        );
      })}
      {shown.value && (
        <Dialog title="Image" wide close={() => (shown.value = null)}>
          <img class="picture-large" src={shown.value} alt="" />
        </Dialog>
      )}
    </div>
  );
}

export function addressOf({ media_type, data }: Picture): string | null {
  return SHOWABLE.test(media_type) && BASE64.test(data) ? `data:${media_type};base64,${data}` : null;
}
