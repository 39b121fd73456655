/** Downloads a text as a file. */
export function downloadFile(name: string, text: string): void {
  // as bytes, never as a page: an export can contain anything
  const address = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
