// The dialog that opens events: a folder to look through, a path, or a copy of a file; and files that are dropped on the page.
import { ask, type Data, type Folder, upload } from "./api";
import { byId, bytes, el } from "./dom";

interface Page {
  data: () => Data | null;
  load: (origin: object) => Promise<boolean>;
  take: (loading: () => Promise<Data>) => Promise<boolean>;
}

export class Loader {
  private dialog = byId<HTMLDialogElement>("loader");
  private path = byId<HTMLInputElement>("path");
  private file = byId<HTMLInputElement>("file");
  private adds = byId<HTMLInputElement>("adds");
  private stream = byId<HTMLInputElement>("stream");
  private follow = byId<HTMLInputElement>("follow");

  constructor(private page: Page) {
    byId("open").onclick = () => this.open();
    byId("load").onclick = () => void this.load();
    this.path.onkeydown = (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      void this.load();
    };
    this.file.onchange = () => (this.path.value = "");
    const drop = byId("drop");
    window.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.hidden = false;
    });
    window.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) drop.hidden = true;
    });
    window.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.hidden = true;
      const dropped = event.dataTransfer?.files[0];
      if (dropped) void this.page.take(() => upload(dropped));
    });
  }

  /** Says in the dialog what is wrong; false if it is not open. */
  say(text: string): boolean {
    if (this.dialog.open) byId("loader-problem").textContent = text;
    return this.dialog.open;
  }

  private open(): void {
    const data = this.page.data();
    byId("loader-problem").textContent = "";
    byId("adding").hidden = !data || data.live;
    this.dialog.showModal();
    void this.list("");
  }

  private async load(): Promise<void> {
    byId("loader-problem").textContent = "";
    const chosen = this.file.files?.[0], data = this.page.data(), path = this.path.value.trim();
    const added: Record<string, string> = this.adds.checked && data ? { add: data.id, stream: this.stream.value.trim() } : {};
    const good = path || !chosen
      ? await this.page.load({ path, follow: this.follow.checked, ...added })
      : await this.page.take(() => upload(chosen, added));
    if (!good) return;
    this.adds.checked = false;
    this.path.value = this.stream.value = this.file.value = "";
    this.dialog.close();
  }

  /** What a folder below the one where the studio was started has; a click on a file takes its path. */
  private async list(folder: string): Promise<void> {
    const box = byId("files");
    let found: Folder;
    try {
      found = await ask<Folder>("/api/files", { folder });
    } catch (error) {
      box.replaceChildren(el("p", { class: "muted" }, error instanceof Error ? error.message : String(error)));
      return;
    }
    const entry = (text: string, note: string, chosen: () => void): HTMLElement => {
      const button = el("button", { type: "button" }, text, el("small", {}, note));
      button.onclick = chosen;
      return el("li", {}, button);
    };
    box.replaceChildren(el("p", { class: "muted" }, found.shown), el("ul", {},
      found.parent !== null && entry("..", "", () => void this.list(found.parent!)),
      ...found.folders.map((name) => entry(`${name}/`, "", () => void this.list(found.folder ? `${found.folder}/${name}` : name))),
      ...found.files.map(({ name, size, path }) => entry(name, bytes(size), () => {
        this.file.value = "";
        this.path.value = path;
        this.path.focus();
      }))),
      ...(found.files.length || found.folders.length ? [] : [el("p", { class: "muted" }, "No Parquet, CSV, JSON lines or Arrow files here.")]));
  }
}
