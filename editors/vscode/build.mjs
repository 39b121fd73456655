// Builds the extension and packs rookery.vsix; --tests also bundles the tests, and packs nothing.
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { strToU8, zipSync } from "fflate";

const about = JSON.parse(readFileSync("package.json", "utf8"));
const forTests = process.argv.includes("--tests");
const node = { bundle: true, platform: "node", target: "node20", logLevel: "warning" };
await build({ ...node, entryPoints: ["src/extension.ts"], outdir: "dist", external: ["vscode"] });
await build({ bundle: true, logLevel: "warning", entryPoints: ["src/page/page.ts", "src/page/page.css"], outdir: "dist" });
if (forTests) await build({ ...node, entryPoints: ["test/logic.test.ts", "test/session.test.ts"], outdir: "dist/test" });
else writeFileSync("rookery.vsix", zipSync(contents()));

function contents() {
  const names = ["package.json", "README.md", "dist/extension.js", "dist/page.js", "dist/page.css", "media/page.html", "media/rook.svg"];
  const files = Object.fromEntries(names.map((name) => [`extension/${name}`, readFileSync(name)]));
  const added = { "[Content_Types].xml": strToU8(contentTypes()), "extension.vsixmanifest": strToU8(manifest()) };
  // a fixed time: the same sources give the same file
  const packed = { ...added, ...files, "extension/LICENSE.txt": readFileSync("../../LICENSE") };
  return Object.fromEntries(Object.entries(packed).map(([name, data]) => [name, [data, { mtime: new Date(2026, 0, 1) }]]));
}

function contentTypes() {
  const types = { json: "application/json", md: "text/markdown", js: "application/javascript", html: "text/html", css: "text/css", svg: "image/svg+xml", txt: "text/plain", vsixmanifest: "text/xml" };
  const rows = Object.entries(types).map(([end, type]) => `<Default Extension=".${end}" ContentType="${type}"/>`);
  return `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${rows.join("")}</Types>
`;
}

function manifest() {
  return `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011" xmlns:d="http://schemas.microsoft.com/developer/vsx-schema-design/2011">
  <Metadata>
    <Identity Language="en-US" Id="${about.name}" Version="${about.version}" Publisher="${about.publisher}"/>
    <DisplayName>${about.displayName}</DisplayName>
    <Description xml:space="preserve">${about.description}</Description>
    <Categories>${about.categories.join(",")}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="${about.engines.vscode}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
    </Properties>
    <License>extension/LICENSE.txt</License>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true"/>
  </Assets>
</PackageManifest>
`;
}
