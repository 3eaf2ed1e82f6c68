async function*e(e){let n=e.body.pipeThrough(new TextDecoderStream).getReader(),r=``;try{for(;;){let{done:e,value:i}=await n.read();if(e)return;r+=i;let a;for(;(a=r.indexOf(`

`))>=0;){let e=t(r.slice(0,a));r=r.slice(a+2),e&&(yield e)}}}finally{n.cancel().catch(()=>void 0)}}function t(e){let t=`message`,n=[];for(let r of e.split(`
`))r.startsWith(`event:`)?t=r.slice(6).trim():r.startsWith(`data:`)&&n.push(r.slice(5).trimStart());return n.length?{name:t,data:JSON.parse(n.join(`
`))}:null}export{e as t};