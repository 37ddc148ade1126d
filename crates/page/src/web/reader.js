// Numbers of 7 bits a byte, lowest first. Multiplied and not shifted, for they may exceed 32 bits.
function reader(base64) {
  const text = atob(base64);
  let at = 0;
  return () => {
    let n = 0;
    let scale = 1;
    for (;;) {
      const byte = text.charCodeAt(at++);
      n += (byte & 0x7f) * scale;
      if (byte < 0x80) return n;
      scale *= 128;
    }
  };
}
