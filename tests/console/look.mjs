// What is wrong with how a page looks: text on top of text, and what sticks out.

/** Runs in the page. Texts that overlap, leave their card, or make the page wider than the screen. */
export function faults() {
  const found = [];
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 1) found.push(`the page is ${wide} px wider than the screen`);
  // Where rows become blocks there is nothing to scroll to: what does not fit is not seen.
  const cut = [...document.querySelectorAll("#main .scroll")].filter((box) => innerWidth <= 760 && box.checkVisibility() && box.scrollWidth > box.clientWidth + 1);
  found.push(...cut.map((box) => `“${box.getAttribute("aria-label")}” is cut off`));
  const leaves = [...document.querySelectorAll("#top *, #nav *, #main *")].filter((element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    && !["title", "desc", "defs", "marker"].includes(element.tagName)
    // For screen readers alone.
    && !(element.closest("thead") && getComputedStyle(element.closest("thead")).clipPath !== "none")
    && [...element.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim()));
  const boxes = leaves.map((element) => {
    const range = document.createRange();
    const texts = [...element.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    range.setStartBefore(texts[0]);
    range.setEndAfter(texts.at(-1));
    const rects = element.namespaceURI.endsWith("svg") ? [element.getBoundingClientRect()] : [...range.getClientRects()];
    return { element, text: element.textContent.trim().slice(0, 40), rects: rects.filter((rect) => rect.width > 1 && rect.height > 1) };
  });
  // What is scrolled out of its box is not seen, so it cannot be in the way.
  const isSeen = (element, rect) => {
    const box = element.closest(".scroll, #nav");
    if (!box) return true;
    const frame = box.getBoundingClientRect();
    return rect.left >= frame.left - 1 && rect.right <= frame.right + 1;
  };
  const seen = boxes.flatMap(({ element, text, rects }) => rects.filter((rect) => isSeen(element, rect)).map((rect) => ({ element, text, rect })));
  seen.forEach(({ element, text, rect }, at) => {
    const frame = element.closest(".card, .tile, header, nav")?.getBoundingClientRect();
    if (frame && (rect.left < frame.left - 1 || rect.right > frame.right + 1)) found.push(`“${text}” leaves its card`);
    for (const other of seen.slice(at + 1)) {
      if (element === other.element || element.contains(other.element) || other.element.contains(element)) continue;
      const across = Math.min(rect.right, other.rect.right) - Math.max(rect.left, other.rect.left);
      const down = Math.min(rect.bottom, other.rect.bottom) - Math.max(rect.top, other.rect.top);
      if (across > 2 && down > 4) found.push(`“${text}” and “${other.text}” overlap`);
    }
  });
  const small = seen.filter(({ element }) => Number.parseFloat(getComputedStyle(element).fontSize) < 11);
  found.push(...small.map(({ text }) => `“${text}” is too small to read`));
  return [...new Set(found)];
}

/** Runs in the page. The lowest contrast of text and what is behind it, of texts that matter. */
export function contrasts() {
  const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((n) => (n / 255 <= 0.03928 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.9) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("#top *, #nav *, #main *")].filter((element) =>
    element.checkVisibility() && !element.namespaceURI.endsWith("svg") && [...element.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim()))
    .map((element) => {
      const [one, two] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
      return { text: element.textContent.trim().slice(0, 40), contrast: (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05) };
    })
    .filter(({ contrast }) => contrast < 4.5)
    .map(({ text, contrast }) => `“${text}” has a contrast of ${contrast.toFixed(1)}`);
}
