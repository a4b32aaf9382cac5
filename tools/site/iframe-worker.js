// The search of the site runs in a worker. Browsers start none for a page that is opened from the disk, so a hidden
// frame takes its place there. The offline plugin of the theme would fetch one from elsewhere, were this not there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      this.started = new Promise((resolve) => (script.onload = resolve)).then(() => inside);
      inside.document.body.append(script);
    }

    async postMessage(data) {
      (await this.started).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
